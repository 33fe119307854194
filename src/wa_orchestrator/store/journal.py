"""The numbered journal in the store: everything that happened, oldest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from wa_orchestrator.clock import iso
from wa_orchestrator.store import keys
from wa_orchestrator.store.connection import Connection


@dataclass(frozen=True, kw_only=True)
class JournalEntry:
    number: int
    type: str
    session_id: str
    at: int
    data: dict[str, Any]

    def view(self) -> dict[str, Any]:
        """As clients see it."""
        return {
            "number": self.number,
            "type": self.type,
            "sessionId": self.session_id or None,
            "timestamp": iso(self.at),
            "data": self.data,
        }


class Journal:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def last_number(self) -> int:
        value = await self._connection.call("GET", keys.EVENTS_NUMBER())
        return int(value) if value else 0

    async def after(self, number: int, *, limit: int) -> list[JournalEntry]:
        rows = await self._connection.call("XRANGE", keys.EVENTS_JOURNAL(), f"({number}-0", "+", "COUNT", limit)
        return [_entry(row_id, fields) for row_id, fields in rows]

    async def wait_after(self, number: int, *, limit: int, wait_ms: int) -> list[JournalEntry]:
        """Blocks on a connection of its own: for the one reader of a process, not for every listener."""
        found = await self._connection.client.xread({keys.EVENTS_JOURNAL(): f"{number}-0"}, count=limit, block=wait_ms)
        if not found:
            return []
        streams = found.values() if isinstance(found, dict) else [rows for _, rows in found]
        return [_entry(row_id, fields) for rows in streams for row_id, fields in _flat(rows)]

    async def timeline(self, session_id: str, *, limit: int) -> list[JournalEntry]:
        """Newest first."""
        rows = await self._connection.call("XREVRANGE", keys.SESSION_EVENTS(session_id), "+", "-", "COUNT", limit)
        return [_entry(row_id, fields, session_id) for row_id, fields in rows]


def _flat(rows: Any) -> Any:
    return rows[0] if rows and isinstance(rows[0], list) and rows[0] and isinstance(rows[0][0], (list, tuple)) else rows


def _entry(row_id: str, fields: dict[str, str] | list[str], session_id: str = "") -> JournalEntry:
    if isinstance(fields, list):
        fields = dict(zip(fields[::2], fields[1::2], strict=True))
    return JournalEntry(
        number=int(row_id.split("-", maxsplit=1)[0]),
        type=fields["type"],
        session_id=fields.get("session", session_id),
        at=int(float(fields["at"])),
        data=msgspec.json.decode(fields["data"]),
    )
