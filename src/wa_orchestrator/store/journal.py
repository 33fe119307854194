"""The numbered journal in the store: everything that happened, oldest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
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

    @cached_property
    def wire(self) -> bytes:
        """The view as JSON, made once however many receive it."""
        return msgspec.json.encode(self.view())

    def to_json(self) -> str:
        """As the store keeps it outside the journal."""
        return msgspec.json.encode([self.number, self.type, self.session_id, self.at, self.data]).decode()

    @staticmethod
    def from_json(text: str) -> JournalEntry:
        number, kind, session_id, at, data = msgspec.json.decode(text)
        return JournalEntry(number=number, type=kind, session_id=session_id, at=at, data=data)


GAP = "journal.gap"


def with_gaps(after: int, entries: Iterable[JournalEntry]) -> Iterator[JournalEntry]:
    """Entries that follow on `after`, with a gap's entry wherever numbers are missing."""
    for entry in entries:
        if entry.number > after + 1:
            yield gap_entry(after + 1, entry.number - 1, at=entry.at)
        after = entry.number
        yield entry


def gap_entry(first: int, last: int, *, at: int) -> JournalEntry:
    """Stands in for entries that are no longer kept, so that nobody takes their absence for silence."""
    return JournalEntry(number=last, type=GAP, session_id="", at=at, data={"from": first, "to": last})


def restarted_entry(known: int, *, at: int) -> JournalEntry:
    """The store was emptied or restored: numbers begin anew, below the one that a listener knows."""
    data = {"from": known + 1, "to": None, "restarted": True}
    return JournalEntry(number=0, type=GAP, session_id="", at=at, data=data)


@dataclass(frozen=True)
class Page:
    """A piece of the journal, and where it stands in the whole."""

    entries: list[JournalEntry]
    oldest: int  # the first number that is kept; last + 1 when none is
    last: int  # the last number ever given

    def gap_after(self, number: int) -> tuple[int, int] | None:
        """Numbers behind `number` that are no longer kept."""
        first = self.entries[0].number if self.entries else max(self.oldest, self.last + 1)
        return (number + 1, first - 1) if number + 1 < first else None


class Journal:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def last_number(self) -> int:
        value = await self._connection.call("GET", keys.EVENTS_NUMBER())
        return int(value) if value else 0

    async def after(self, number: int, *, limit: int) -> list[JournalEntry]:
        rows = await self._connection.call("XRANGE", keys.EVENTS_JOURNAL(), f"({number}-0", "+", "COUNT", limit)
        return [_entry(row_id, fields) for row_id, fields in rows]

    async def page(self, after: int, *, limit: int) -> Page:
        """The same with where it stands; asked in one turn, the entries first: what is cut off between them shows."""
        rows = self._connection.ask("XRANGE", keys.EVENTS_JOURNAL(), f"({after}-0", "+", "COUNT", limit)
        first = self._connection.ask("XRANGE", keys.EVENTS_JOURNAL(), "-", "+", "COUNT", 1)
        number = self._connection.ask("GET", keys.EVENTS_NUMBER())
        entries = [_entry(row_id, fields) for row_id, fields in await rows]
        oldest = await first
        last = int(await number or 0)
        if not entries and last > after and oldest:
            # noted between the two questions: it comes with the next page
            last = max(after, _number(oldest[0][0]) - 1)
        return Page(entries, _number(oldest[0][0]) if oldest else last + 1, last)

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


def _number(row_id: str) -> int:
    return int(row_id.split("-", maxsplit=1)[0])


def _flat(rows: Any) -> Any:
    return rows[0] if rows and isinstance(rows[0], list) and rows[0] and isinstance(rows[0][0], (list, tuple)) else rows


def _entry(row_id: str, fields: dict[str, str] | list[str], session_id: str = "") -> JournalEntry:
    if isinstance(fields, list):
        fields = dict(zip(fields[::2], fields[1::2], strict=True))
    return JournalEntry(
        number=_number(row_id),
        type=fields["type"],
        session_id=fields.get("session", session_id),
        at=int(float(fields["at"])),
        data=msgspec.json.decode(fields["data"]),
    )
