"""The data folder of one server: its lock, its secrets, its id and where it listens."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.processes.filelock import try_lock
from wa_orchestrator.settings import Settings


@dataclass(frozen=True)
class Secrets:
    """What was made at first start, as opposed to given by the operator."""

    settings: Settings
    new_api_key: str | None  # to be shown once


@contextlib.contextmanager
def owned_data_folder(settings: Settings) -> Iterator[Path]:
    """The data folder, ours alone while the server runs."""
    folder = settings.data_path()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (settings.sessions_path, settings.run_path, settings.data_path("logs")):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = contextlib.ExitStack()
        held = lock.enter_context(try_lock(folder / "server.lock"))
    except OSError as error:
        raise SettingsError(
            f"The data folder {folder} cannot be used: {error.strerror}. Check its owner, or set DATA_DIR."
        ) from error
    with lock:
        if held is None:
            raise SettingsError(
                f"Another server already runs on the data folder {folder}. Stop it, or use another --data-dir."
            )
        yield folder


def write_private(path: Path, text: str) -> None:
    """Writes a file that only we may read, whole or not at all."""
    unfinished = path.with_name(path.name + ".tmp")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)


def with_secrets(settings: Settings, folder: Path) -> Secrets:
    """Fills in the secrets that were not given: from the data folder, else newly made and kept there."""
    file = folder / "secrets.json"
    kept = _read(file)
    made: dict[str, str] = {}
    if not settings.api_key and "apiKey" not in kept:
        made["apiKey"] = f"wa_{secrets.token_urlsafe(24)}"
    if not settings.webhook_secret and "webhookSecret" not in kept:
        made["webhookSecret"] = secrets.token_urlsafe(32)
    if made:
        kept = {**kept, **made}
        write_private(file, json.dumps(kept, indent=2) + "\n")
    filled = replace(
        settings,
        api_key=settings.api_key or kept["apiKey"],
        webhook_secret=settings.webhook_secret or kept["webhookSecret"],
    )
    return Secrets(settings=filled, new_api_key=made.get("apiKey"))


def _read(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise SettingsError(f"{file} is damaged. Restore it from a backup; without it running workers are locked out.")
    return found


def server_id(folder: Path) -> str:
    """The same for every start on this data folder: what a dead predecessor left half-done is ours to clear."""
    file = folder / "server-id"
    if not file.is_file():
        write_private(file, secrets.token_hex(8))
    return file.read_text(encoding="utf-8").strip()
