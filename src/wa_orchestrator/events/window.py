"""What one webhook has read from the journal and not yet settled: a lane per session, in order. Pure book-keeping.

The journal itself is the queue. `settle_point` is as far as everything is delivered, waits aside in the store, or was
given up; only so far the webhook's cursor moves. What lies beyond is in memory alone and is read again after a crash.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from wa_orchestrator.events import retrying
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator.store.webhooks import Letter, Parked, Progress

# As much memory as a receiver that is slow or away may cost.
_MOST_OPEN = 1000
_MOST_BYTES = 8 << 20
# As far as others may run ahead of one that is not settled: so much at most is delivered twice after a crash.
_MOST_AHEAD = 4000
_LOW = 250  # few enough to read on


@dataclass(eq=False)
class Lane:
    """The events of one session for one receiver; one is under way at a time."""

    session: str
    queue: deque[JournalEntry] = field(default_factory=deque)  # fresh from the journal
    stored: deque[JournalEntry] = field(default_factory=deque)  # a parked session's, loaded from the store
    parked: bool = False
    busy: bool = False
    called: bool = False  # stands in the line of those that may be served
    unsettled: bool = False  # what was done is not in the store yet: nothing more may be loaded from there
    failures: int = 0
    since: int = 0
    next_try: int = 0
    error: str = ""

    @property
    def head(self) -> JournalEntry | None:
        line = self.stored if self.parked else self.queue
        return line[0] if line else None

    def state(self) -> Parked:
        return Parked(failures=self.failures, since=self.since, next_try=self.next_try, error=self.error)

    def calm(self) -> None:
        self.failures = self.since = self.next_try = 0
        self.error = ""


class Window:
    def __init__(self, cursor: int) -> None:
        self.read_to = cursor
        self.lanes: dict[str, Lane] = {}
        self.progress = Progress()
        self._order: deque[int] = deque()  # fresh numbers, from the first that is not settled
        self._closed: set[int] = set()
        self._bytes = 0

    # reading ----------------------------------------------------------------------------------------------------
    @property
    def has_room(self) -> bool:
        few = len(self._order) - len(self._closed) < _MOST_OPEN and len(self._order) < _MOST_AHEAD
        return few and self._bytes < _MOST_BYTES

    @property
    def runs_low(self) -> bool:
        return len(self._order) - len(self._closed) < _LOW and self.has_room

    @property
    def room(self) -> int:
        return max(1, _MOST_OPEN - len(self._order) + len(self._closed))

    def settle_point(self) -> int:
        """As far as everything is settled once `progress` is written: called with `hand_over`, in one turn."""
        while self._order and self._order[0] in self._closed:
            self._closed.discard(self._order.popleft())
        return max(0, self._order[0] - 1) if self._order else self.read_to

    @property
    def idle(self) -> bool:
        return not self._order

    def is_open(self, number: int) -> bool:
        """Whether an entry that was taken is still to be delivered."""
        return number not in self._closed and number in self._order

    def pass_over(self, number: int) -> None:
        """An entry that this webhook does not want."""
        self.read_to = number

    def take(self, entry: JournalEntry) -> Lane:
        self.read_to = entry.number
        self._order.append(entry.number)
        lane = self.lane(entry.session_id)
        if lane.parked:
            self._put_aside(lane, [entry])
        else:
            lane.queue.append(entry)
            self._bytes += len(entry.wire)
        return lane

    def lane(self, session: str) -> Lane:
        found = self.lanes.get(session)
        if found is None:
            found = self.lanes[session] = Lane(session)
        return found

    # what came of it --------------------------------------------------------------------------------------------
    def delivered(self, lane: Lane, entry: JournalEntry) -> None:
        self._leave(lane, entry)
        lane.calm()
        self.progress.delivered += 1

    def failed(self, lane: Lane, error: str, *, now_ms: int, chance: float) -> None:
        """The event stays the first of its lane."""
        lane.failures += 1
        lane.since = lane.since or now_ms
        lane.next_try = now_ms + retrying.session_pause_ms(lane.failures, chance)
        lane.error = error
        self.progress.failed += 1
        if lane.parked:
            self.progress.lane(lane.session).state = lane.state()

    def park(self, lane: Lane) -> None:
        """Its events wait in the store, so that the cursor can go on with those of others."""
        fresh = list(lane.queue)
        lane.queue.clear()
        self._bytes -= sum(len(entry.wire) for entry in fresh)
        lane.parked = True
        self._put_aside(lane, fresh)
        self.progress.lane(lane.session).state = lane.state()

    def passed_over(self, lane: Lane, entry: JournalEntry) -> None:
        """Its format has no such event: nothing to deliver."""
        self._leave(lane, entry)

    def bury(self, lane: Lane, entry: JournalEntry, *, reason: str, tries: int, now_ms: int) -> None:
        """Given up: onto the list of dead letters."""
        self._leave(lane, entry)
        self.progress.dead[entry.number] = Letter(
            session=lane.session, event=entry.to_json(), dead_at=now_ms, reason=reason, tries=tries
        )

    def _leave(self, lane: Lane, entry: JournalEntry) -> None:
        if lane.parked:
            if entry in lane.stored:
                lane.stored.remove(entry)
            # put aside while it was under way, and not written yet: then it need not be written at all
            if self.progress.lane(lane.session).add.pop(entry.number, None) is None:
                self.progress.lane(lane.session).done.append(entry.number)
            lane.unsettled = True
        else:
            lane.queue.remove(entry)
            self._bytes -= len(entry.wire)
            self._closed.add(entry.number)

    def _put_aside(self, lane: Lane, entries: list[JournalEntry]) -> None:
        for entry in entries:
            self.progress.lane(lane.session).add[entry.number] = entry.to_json()
            self._closed.add(entry.number)
        lane.unsettled = True

    # settling ---------------------------------------------------------------------------------------------------
    def hand_over(self) -> Progress:
        """What is to be written now; from here on the next is gathered."""
        taken, self.progress = self.progress, Progress()
        return taken

    def take_back(self, taken: Progress) -> None:
        """It could not be written: it is written with the next."""
        later, self.progress = self.progress, taken
        for session, lane in later.lanes.items():
            mine = taken.lane(session)
            mine.add.update(lane.add)
            for number in lane.done:
                mine.add.pop(number, None)
            mine.done += lane.done
            mine.state = lane.state or mine.state
        taken.dead.update(later.dead)
        taken.fields.update(later.fields)
        taken.delivered += later.delivered
        taken.failed += later.failed
        taken.disable = taken.disable or later.disable
        taken.tell = later.tell or taken.tell
        taken.restart = taken.restart or later.restart

    def settled(self, taken: Progress, sizes: dict[str, int]) -> None:
        """It is written; `sizes`: how much waits aside for each session that was named."""
        for session in taken.lanes:
            lane = self.lane(session)
            since = self.progress.lanes.get(session)
            # what was done while this was written is not known to the store yet
            lane.unsettled = bool(since and (since.done or since.add))
            if sizes.get(session, 0) == 0 and not lane.stored:
                self._bring_back(lane)

    def _bring_back(self, lane: Lane) -> None:
        """Nothing waits aside any more: what came meanwhile is delivered from memory."""
        lane.parked = False
        lane.unsettled = False
        later = self.progress.lanes.pop(lane.session, None)
        if not later:
            return
        for number, text in later.add.items():
            entry = JournalEntry.from_json(text)
            self._closed.discard(number)
            lane.queue.append(entry)
            self._bytes += len(entry.wire)

    def forget_idle_lanes(self) -> None:
        """Sessions come and go; what has nothing to deliver needs no place."""
        done = [
            name for name, lane in self.lanes.items() if not (lane.queue or lane.parked or lane.busy or lane.failures)
        ]
        for name in done:
            del self.lanes[name]
