"""Which phone sends a message that names no sender. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A connected session, how much its phone may still send today (None: no limit), and how many wait for it."""

    session_id: str
    phone: str
    room: int | None
    waiting: int = 0


class Senders:
    """Gives message after message to a sender; each one given counts, so the next may fit better elsewhere.

    The best one stands on top of a heap. What was given to a phone is counted apart, and an entry that is out of date
    is put back to its place when it comes up: one message costs the same with ten senders and with ten thousand.
    """

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        self._known = {candidate.session_id: candidate for candidate in candidates}
        self._given: Counter[str] = Counter()  # by phone: its sessions share its room
        self._heap = [self._place(candidate) for candidate in self._known.values()]
        heapq.heapify(self._heap)

    def choose(self, *, last_talked: str | None) -> Candidate | None:
        """The session that last talked to the recipient, else the one with most room left; None when nobody is there.

        A full one is better than none: the message waits there for tomorrow.
        """
        chosen = self._known.get(last_talked or "") or self._with_most_room()
        if chosen:
            self._given[chosen.phone] += 1
        return chosen

    def _with_most_room(self) -> Candidate | None:
        while self._heap:
            place = self._heap[0]
            candidate = self._known[place[2]]
            now = self._place(candidate)
            if now == place:
                return candidate
            heapq.heapreplace(self._heap, now)
        return None

    def _place(self, candidate: Candidate) -> tuple[float, int, str]:
        """Most room first; of those alike the one with the shortest queue."""
        given = self._given[candidate.phone]
        room = float("inf") if candidate.room is None else candidate.room - given
        return -room, candidate.waiting + given, candidate.session_id
