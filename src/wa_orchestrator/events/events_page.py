"""One answer from the journal: what follows a number, filtered, with what is missing in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store import Store
from wa_orchestrator.store.journal import JournalEntry

_PIECE = 1000
_MOST_LOOKED_AT = 20_000  # in one call; a rare type is then looked for in several, `last` says how far it came


@dataclass(frozen=True, kw_only=True)
class EventQuestion:
    after: int | None
    types: tuple[str, ...] = ()
    session_id: str = ""
    limit: int = 100
    sees: Callable[[str], bool] | None = None  # of a key that is limited to sessions

    def from_here(self, number: int) -> EventQuestion:
        return replace(self, after=number)

    def wants(self) -> Callable[[JournalEntry], bool]:
        sessions = (self.session_id,) if self.session_id else ()
        pattern = Webhook(webhook_id="", url="", types=self.types, sessions=sessions)
        sees = self.sees
        return lambda entry: pattern.wants(entry.type, entry.session_id) and (sees is None or sees(entry.session_id))


@dataclass(frozen=True)
class EventsPage:
    events: list[JournalEntry]
    last: int  # how far was looked: go on after this number
    oldest: int
    newest: int  # the last number ever given
    gap: dict[str, int | bool | None] | None

    def json(self) -> bytes:
        answer: dict[str, object] = {
            "events": [msgspec.Raw(entry.wire) for entry in self.events],
            "last": self.last,
            "oldest": self.oldest,
            "newest": self.newest,
        }
        if self.gap:
            answer["gap"] = self.gap
        return msgspec.json.encode(answer)


async def read_page(store: Store, question: EventQuestion) -> EventsPage:
    """Up to `limit` events; a gap ends the search, so that it stands before what follows it."""
    wants = question.wants()
    found: list[JournalEntry] = []
    looked_at, number = 0, question.after or 0
    gap: dict[str, int | bool | None] | None = None
    while True:
        page = await store.journal.page(number, limit=_PIECE)
        if page.last < number and not page.entries:
            # numbers began anew: everything there is follows
            gap, number = {"from": number + 1, "to": None, "restarted": True}, 0
            continue
        missing = page.gap_after(number)
        if missing and question.after is not None and number == question.after and gap is None:
            gap = {"from": missing[0], "to": missing[1]}
        for entry in page.entries:
            number = entry.number
            if wants(entry):
                found.append(entry)
                if len(found) == question.limit:
                    return EventsPage(found, number, page.oldest, max(page.last, number), gap)
        if missing and not page.entries:
            number = missing[1]
        looked_at += len(page.entries)
        if len(page.entries) < _PIECE or looked_at >= _MOST_LOOKED_AT:
            return EventsPage(found, number, page.oldest, max(page.last, number), gap)
