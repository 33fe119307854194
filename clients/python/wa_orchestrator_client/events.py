"""Following the journal: which page to ask for next, and whether something is missing. Pure."""

from __future__ import annotations

from wa_orchestrator_client.calls import Call, events_page
from wa_orchestrator_client.errors import EventsLost
from wa_orchestrator_client.models import Event, EventsPage

_WAIT_MS = 25_000
_AT_ONCE = 500
_NEAR = 5_000
# a type that is never noted: the server looks to the end of the journal and finds nothing
_NOTHING = ("journal.gap",)


class Journey:
    """Where a listener is. Without `after` it first goes to the end of the journal."""

    def __init__(self, *, after: int | None, session_id: str | None = None, types: tuple[str, ...] = ()) -> None:
        self.after = after
        self._session_id = session_id
        self._types = types
        self._looked_to: int | None = None

    def next_call(self) -> Call[EventsPage]:
        if self.after is None:
            return events_page(self._looked_to, types=_NOTHING, session_id=None, wait_ms=0, limit=_AT_ONCE)
        return events_page(self.after, types=self._types, session_id=self._session_id, wait_ms=_WAIT_MS, limit=_AT_ONCE)

    def took(self, page: EventsPage) -> tuple[Event, ...]:
        """The events of a page; raises EventsLost where some are missing before them."""
        if self.after is None:
            # a call looks at thousands: one that came only a little further reached the end
            if page.last - (self._looked_to or 0) < _NEAR:
                self.after = page.last
            self._looked_to = page.last
            return ()
        if page.gap is not None:
            last_lost = page.gap.get("to")
            raise EventsLost(self.after, last_lost + 1 if isinstance(last_lost, int) else 1)
        self.after = page.last
        return page.events
