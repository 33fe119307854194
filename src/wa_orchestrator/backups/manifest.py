"""The manifest of a backup: what is in it, and what the store must know to go on with it."""

from __future__ import annotations

from typing import Any

import msgspec

from wa_orchestrator.backups.auth_files import AuthState

FORMAT = 1
NAME = "manifest.json"
FOLDER = "sessions"
# 10,000 sessions need about 40 MB
MAX_BYTES = 256 * 1024 * 1024


class FileEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One file of a session, by its path inside the session's folder."""

    path: str
    bytes: int
    sha256: str


class SessionEntry(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    store: dict[str, Any]  # as collect_session.lua tells it; holds the proxy's password
    generation: int = 0
    jid: str = ""
    paused_ms: int | None = None  # None: it was not running
    files: tuple[FileEntry, ...] = ()

    @property
    def total_bytes(self) -> int:
        return sum(file.bytes for file in self.files)


class Skipped(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    session_id: str
    reason: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    format: int = FORMAT
    kind: str = "backup"  # or export
    version: str = ""
    created_at: int = 0
    sessions: tuple[SessionEntry, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    parts: dict[str, dict[str, Any]] = {}


def encode(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def decode(data: bytes) -> Manifest:
    """Raises msgspec.MsgspecError for anything that is no manifest."""
    return msgspec.json.decode(data, type=Manifest)


def format_of(data: bytes) -> int:
    """The format number, also of a manifest from a newer version."""

    class _Any(msgspec.Struct):
        format: int

    return msgspec.json.decode(data, type=_Any).format


def entry_from_auth(
    session_id: str, auth: AuthState | None, files: tuple[FileEntry, ...], *, now_ms: int
) -> SessionEntry:
    """What can be known of a session from its auth files alone, for a backup without a manifest."""
    paired = auth is not None and auth.paired
    phone = auth.phone if auth and paired else ""
    record = {
        "id": session_id,
        "created": str(now_ms),
        "phone": phone,
        "expectedPhone": "",
        "jid": auth.jid if auth and paired else "",
        "lid": auth.lid if auth and paired else "",
        "label": "",
        "metadata": "{}",
        "status": "stopped",
        "wanted": "running" if paired else "stopped",
    }
    store: dict[str, Any] = {"record": record, "proxies": {}, "limits": ""}
    if phone:
        first = str(auth.registered_at) if auth and auth.registered_at else ""
        store["phone"] = {"number": phone, "proxy": "", "firstConnectedAt": first, "member": True}
    return SessionEntry(
        session_id=session_id,
        store=store,
        generation=auth.generation if auth else 0,
        jid=auth.jid if auth else "",
        files=files,
    )
