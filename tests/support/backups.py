"""Sessions for backups: linked with tiny workers, with auth files as the real worker writes them."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from support.control_plane import ControlPlane
from support.waiting import wait_until

_MAGIC = 0x314A4157


def frame(sequence: int, text: str) -> bytes:
    """One record of a worker's journal."""
    payload = text.encode()
    head = struct.pack("<IIQ", _MAGIC, len(payload), sequence) + hashlib.sha256(payload).digest()[:8]
    return head + hashlib.sha256(head).digest()[:8] + payload


def creds(phone: str, *, device: int = 1) -> str:
    me = {"id": f"{phone}:{device}@s.whatsapp.net", "lid": f"99{phone}:{device}@lid"}
    return json.dumps({"noiseKey": {}, "signedIdentityKey": {}, "account": {"details": "x"}, "me": me})


def write_auth(folder: Path, phone: str, *, generation: int, device: int = 1) -> None:
    (folder / "auth").mkdir(parents=True, exist_ok=True)
    meta = json.dumps({"registeredAt": 1_700_000_000_000})
    (folder / "auth" / "journal").write_bytes(
        frame(generation, f"creds\t{creds(phone, device=device)}\nmeta\t{meta}\n")
    )


def write_ledger(folder: Path, *, generation: int, text: str = "") -> None:
    (folder / "outbox").mkdir(parents=True, exist_ok=True)
    (folder / "outbox" / "journal").write_bytes(frame(generation, f"sent-{text}\t1\n"))


async def linked(plane: ControlPlane, phone: str, *, generation: int = 5, **wanted: Any) -> str:
    """A connected session with files to back up."""
    session_id = await plane.provision(**wanted)
    folder = plane.folder(session_id)
    write_auth(folder, phone, generation=generation)
    write_ledger(folder, generation=generation, text=session_id)
    (folder / "connect-as").write_text(phone)
    await wait_settled(plane, session_id)
    return session_id


async def wait_status(plane: ControlPlane, session_id: str, *statuses: str, timeout_s: float = 20.0) -> None:
    async def is_so() -> bool:
        return await plane.status(session_id) in statuses

    await wait_until(is_so, timeout_s=timeout_s)


async def wait_settled(plane: ControlPlane, session_id: str) -> None:
    """Connected, and its worker knows that this was heard: its files change no more by themselves."""
    await wait_status(plane, session_id, "connected")
    spool = plane.folder(session_id) / "tiny-events.json"

    def all_is_told() -> bool:
        return not json.loads(spool.read_text())["waiting"]

    await wait_until(all_is_told, timeout_s=20.0)


async def ended(plane: ControlPlane, *, timeout_s: float = 30.0) -> dict[str, Any]:
    """The operation under way, when it has ended."""
    found: dict[str, Any] = {}

    async def is_so() -> bool:
        found.update((await plane.good("GET", "/api/v1/backups/operation"))["operation"])
        return found["state"] in {"done", "failed"}

    await wait_until(is_so, timeout_s=timeout_s)
    return found


async def backed_up(plane: ControlPlane) -> str:
    """A backup of everything; its id."""
    await plane.good("POST", "/api/v1/backups/create", status=202)
    done = await ended(plane)
    assert done["state"] == "done", done
    return str(done["result"]["backupId"])


async def restored(plane: ControlPlane, backup_id: str, **body: Any) -> dict[str, Any]:
    await plane.good("POST", f"/api/v1/backups/restore/{backup_id}", body, status=202)
    done = await ended(plane)
    assert done["state"] == "done", done
    return done


async def journal_types(plane: ControlPlane) -> list[str]:
    return [entry.type for entry in await plane.store.journal.after(0, limit=10_000)]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file and its content."""
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}
