"""When a message will probably leave: shown to the caller, never a promise. Pure."""

from __future__ import annotations

from typing import Any

_DAY_MS = 86_400_000


def estimated_send_at(snapshot: dict[str, Any], *, now_ms: int, schedule_at: int | None = None) -> int:
    """From the lane as it was when the message was accepted; `snapshot` comes from the enqueue script."""
    start = max(now_ms, schedule_at or 0, _number(snapshot, "blockedUntil"))
    if "minDelay" not in snapshot:
        return start  # no sender yet, or a lane that was never planned
    opens, closes = _number(snapshot, "opensAt"), _number(snapshot, "closesAt")
    if start < opens:
        start = opens
    elif closes and start >= closes:
        start = opens + _DAY_MS * (1 + (start - closes) // _DAY_MS)
    ahead = _number(snapshot, "pending")
    gap = (_number(snapshot, "minDelay") + _number(snapshot, "maxDelay")) / 2 * (snapshot.get("slow") or 1)
    per_minute = snapshot.get("perMinute")
    if per_minute:
        gap = max(gap, 60_000 / per_minute)
    daily = snapshot.get("daily")
    if daily:
        left_today = max(0, daily - _number(snapshot, "dayCount"))
        if ahead >= left_today:
            days = 1 + (ahead - left_today) // daily
            ahead = (ahead - left_today) % daily
            start = max(start, opens) + days * _DAY_MS if opens > now_ms else opens + days * _DAY_MS
    return int(max(start, _number(snapshot, "nextDue")) + ahead * gap)


def _number(snapshot: dict[str, Any], name: str) -> int:
    return int(snapshot.get(name) or 0)
