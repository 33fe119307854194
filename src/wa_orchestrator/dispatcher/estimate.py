"""When a message will probably leave: shown to the caller, never a promise. Pure."""

from __future__ import annotations

from typing import Any

_DAY_MS = 86_400_000


def estimated_send_at(snapshot: dict[str, Any], *, now_ms: int, schedule_at: int | None = None) -> int | None:
    """From the lane as it was when the message was accepted; `snapshot` comes from the enqueue script.

    None: its session is stopped, ended or not linked. Only whoever starts or scans it knows when that will be.
    """
    if snapshot.get("stuck"):
        return None
    start = max(now_ms, schedule_at or 0, _number(snapshot, "blockedUntil"))
    if "minDelay" not in snapshot:
        return start  # no sender yet, or a lane that was never planned
    # what waits now will be gone by the time a planned one is due
    ahead = 0 if schedule_at else _number(snapshot, "pending")
    gap = _gap_ms(snapshot)
    daily = snapshot.get("daily")
    opens, day_ends = _number(snapshot, "opensAt"), _number(snapshot, "dayEndsAt")
    closes = min(_number(snapshot, "closesAt"), max(day_ends, opens + 1))
    if start < closes and start < day_ends:
        begin = max(start, opens, _number(snapshot, "nextDue"))
        left = None if daily is None else max(0, int(daily) - _number(snapshot, "dayCount"))
        room = _room(closes - begin, gap, left)
        if room is None or ahead < room:
            return int(begin + ahead * gap)
        ahead -= room
    return _on_a_later_day(snapshot, start=start, ahead=ahead, gap=gap)


def _on_a_later_day(snapshot: dict[str, Any], *, start: int, ahead: int, gap: float) -> int:
    """The days after this one are taken to be alike."""
    opens = _number(snapshot, "nextOpensAt") or _number(snapshot, "dayEndsAt") or start
    length = min(_DAY_MS, max(1, _number(snapshot, "closesAt") - _number(snapshot, "opensAt")))
    if start >= opens + length:
        opens += _DAY_MS * (1 + (start - opens - length) // _DAY_MS)
    begin = max(start, opens)
    room = _room(opens + length - begin, gap, snapshot.get("daily"))
    if room is None or ahead < room:
        return int(begin + ahead * gap)
    each = _room(length, gap, snapshot.get("daily"))
    if not each:
        return begin  # it may send nothing at all: only the operator knows until when
    ahead -= room
    return int(opens + _DAY_MS * (1 + ahead // each) + ahead % each * gap)


def _gap_ms(snapshot: dict[str, Any]) -> float:
    gap = (_number(snapshot, "minDelay") + _number(snapshot, "maxDelay")) / 2 * (snapshot.get("slow") or 1)
    per_minute = snapshot.get("perMinute")
    return max(gap, 60_000 / per_minute) if per_minute else gap


def _room(length_ms: int, gap: float, most: float | None) -> int | None:
    """How many fit into a stretch of time; None: any number."""
    if length_ms <= 0:
        return 0
    fitting = None if gap <= 0 else int(-(-length_ms // gap))
    if most is None:
        return fitting
    return int(most) if fitting is None else min(int(most), fitting)


def _number(snapshot: dict[str, Any], name: str) -> int:
    return int(snapshot.get(name) or 0)
