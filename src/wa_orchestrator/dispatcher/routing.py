"""Which phone sends a message that names no sender. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A connected session and how much its phone may still send today (None: no limit)."""

    session_id: str
    phone: str
    room: int | None

    @property
    def rank(self) -> float:
        return float("inf") if self.room is None else self.room


def choose_sender(candidates: list[Candidate], *, last_talked: str | None) -> Candidate | None:
    """The session that last talked to the recipient, else the one with most room left; None when nobody can."""
    for candidate in candidates:
        if candidate.session_id == last_talked:
            return candidate
    able = [c for c in candidates if c.room is None or c.room > 0]
    # a full one is better than none: the message waits there for tomorrow
    return max(able or candidates, key=lambda c: (c.rank, c.session_id), default=None)


def with_one_less(candidates: list[Candidate], chosen: Candidate) -> list[Candidate]:
    """The same list after giving `chosen` a message: the next one may fit better elsewhere."""
    return [replace(c, room=c.room - 1) if c.phone == chosen.phone and c.room is not None else c for c in candidates]
