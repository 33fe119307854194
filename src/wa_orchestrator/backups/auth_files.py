"""What a session's folder says about itself: whose it is and how new its keys are. Reads only, also beside a worker.

The worker's journal (worker/src/journalFrames.ts): frames of magic, payload length, sequence, two digests, then lines
`key TAB value`. Read here and not by the worker's own `inspect`, because a server in a container has no Node, and a
thousand sessions would cost a thousand starts of it.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAGIC = 0x314A4157  # "WAJ1"
_HEADER = struct.Struct("<IIQ8s8s")
_PHONE = re.compile(r"^\d+")


@dataclass(frozen=True, kw_only=True)
class AuthState:
    """The auth files of one session; no secrets."""

    generation: int = 0  # grows with every change of keys; 0: Baileys' own files, which have none
    paired: bool = False
    phone: str = ""
    jid: str = ""
    lid: str = ""
    registered_at: int = 0


def read_auth(folder: Path) -> AuthState | None:
    """None when there are no readable auth files."""
    journal = read_journal(folder / "auth" / "journal")
    if journal is not None:
        creds, meta = (journal.values.get(name, b"").decode("utf-8", "replace") for name in (b"creds", b"meta"))
        return _state(creds, meta, generation=journal.generation)
    try:
        return _state((folder / "creds.json").read_text(encoding="utf-8"), "", generation=0)
    except (OSError, ValueError):
        return None


@dataclass(frozen=True)
class Journal:
    generation: int
    values: dict[bytes, bytes]

    def as_file(self) -> bytes:
        """The same as one record, as the worker itself writes it at its next start."""
        payload = b"".join(name + b"\t" + value + b"\n" for name, value in self.values.items())
        head = struct.pack("<IIQ", _MAGIC, len(payload), self.generation) + _digest(payload)
        return head + _digest(head) + payload


def read_journal(file: Path) -> Journal | None:
    """None when it is missing or damaged. A torn tail is no damage: it is what a crash leaves."""
    try:
        data = file.read_bytes()
    except OSError:
        return None
    at, generation = 0, 0
    values: dict[bytes, bytes] = {}
    while frame := _frame(data, at):
        generation, payload, at = frame
        for line in payload.split(b"\n")[:-1]:
            name, tab, value = line.partition(b"\t")
            if tab:
                values[name] = value
            else:
                values.pop(name, None)
    if generation == 0 or _frame_follows(data, at):
        return None
    return Journal(generation, values)


def drop_history(file: Path) -> None:
    """Rewrites a copied journal without what was removed from it: smaller, and without the text of old messages."""
    journal = read_journal(file)
    if journal is None:
        return  # damaged or not there: kept as it is, the worker says what it thinks of it
    file.write_bytes(journal.as_file())
    if read_journal(file) != journal:
        raise OSError(f"{file.name} was not written as it was read")


def _frame(data: bytes, at: int) -> tuple[int, bytes, int] | None:
    """(sequence, payload, end) of a whole and unharmed frame."""
    begin = at + _HEADER.size
    if begin > len(data):
        return None
    magic, length, sequence, payload_digest, header_digest = _HEADER.unpack_from(data, at)
    if magic != _MAGIC or _digest(data[at : at + 24]) != header_digest or begin + length > len(data):
        return None
    payload = data[begin : begin + length]
    return (sequence, payload, begin + length) if _digest(payload) == payload_digest else None


def _frame_follows(data: bytes, at: int) -> bool:
    """Good frames behind a bad one: not a crash's torn tail but damage."""
    magic = struct.pack("<I", _MAGIC)
    found = data.find(magic, at + 1)
    while found != -1:
        header = data[found : found + _HEADER.size]
        if len(header) == _HEADER.size and _digest(header[:24]) == header[24:]:
            return True
        found = data.find(magic, found + 1)
    return False


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()[:8]


def _state(creds_text: str, meta_text: str, *, generation: int) -> AuthState | None:
    try:
        creds: Any = json.loads(creds_text)
        meta: Any = json.loads(meta_text or "{}")
    except ValueError:
        return None
    if not isinstance(creds, dict) or "noiseKey" not in creds or not isinstance(meta, dict):
        return None
    me = creds.get("me")
    paired = isinstance(me, dict) and bool(creds.get("account"))
    jid = str(me.get("id") or "") if paired and isinstance(me, dict) else ""
    found = _PHONE.match(jid)
    registered = meta.get("registeredAt")
    return AuthState(
        generation=generation,
        paired=paired,
        phone=found[0] if found else "",
        jid=jid,
        lid=str(me.get("lid") or "") if paired and isinstance(me, dict) else "",
        registered_at=registered if isinstance(registered, int) else 0,
    )
