"""When a phone may send: its day, its hours, its trust, as instants that a store script can compare. Pure.

Time zones live here and nowhere else: the script only compares with these instants and hands a lane back for a new
plan when `replan_at` has passed.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from wa_orchestrator.model.lane import LanePlan
from wa_orchestrator.model.limits import Effective, Hours, Limits
from wa_orchestrator.model.trust import LEVELS

_DAY_MS = 86_400_000


def plan_lane(effective: Effective, *, first_connected_at: int | None, now_ms: int) -> LanePlan:
    """The plan from now on; it must be made again at `replan_at`."""
    limits = effective.limits
    zone = ZoneInfo(limits.timezone)
    today = _local(now_ms, zone).date()
    day_ends_at = _first_instant(today + timedelta(days=1), 0, zone)
    opens_at, closes_at = sending_window(limits.hours, zone, now_ms)
    turning_points = [day_ends_at, closes_at]
    if (older_at := next_trust_change(first_connected_at, now_ms)) is not None:
        turning_points.append(older_at)
    if effective.changes_at is not None:
        turning_points.append(effective.changes_at)
    return LanePlan(
        daily=limits.daily,
        per_minute=limits.per_minute,
        min_delay_ms=limits.min_delay_ms,
        max_delay_ms=limits.max_delay_ms,
        burst_count=limits.burst.count if limits.burst else None,
        burst_pause_ms=limits.burst.pause_ms if limits.burst else 0,
        opens_at=opens_at,
        closes_at=closes_at,
        next_opens_at=max(day_ends_at, sending_window(limits.hours, zone, day_ends_at)[0]),
        day_key=today.isoformat(),
        day_starts_at=_first_instant(today, 0, zone),
        day_ends_at=day_ends_at,
        replan_at=min(turning_points),
    )


def sending_window(hours: Hours | None, zone: ZoneInfo, now_ms: int) -> tuple[int, int]:
    """The window that is open now, or else the next one: (opens at, closes at)."""
    today = _local(now_ms, zone).date()
    if hours is None or (hours.opens, hours.closes) == (0, 24 * 60):
        # no hours: one endless window; two days are enough, it is planned again at midnight anyway
        return _first_instant(today, 0, zone), now_ms + 2 * _DAY_MS
    for offset in (-1, 0, 1, 2):
        day = today + timedelta(days=offset)
        overnight = hours.closes <= hours.opens
        # where the clock shows a time twice, the hours begin at the second and end at the first
        opens = _last_instant(day, hours.opens, zone)
        closes = _first_instant(day + timedelta(days=1) if overnight else day, hours.closes, zone)
        # a clock change can swallow a short window
        if closes > now_ms and closes > opens:
            return opens, closes
    raise AssertionError("some day of four has a window")


def next_trust_change(first_connected_at: int | None, now_ms: int) -> int | None:
    """When the phone reaches the next level; None when it is at the top or has not connected yet."""
    if first_connected_at is None:
        return None
    ages = sorted(first_connected_at + level.from_day * _DAY_MS for level in LEVELS)
    return next((at for at in ages if at > now_ms), None)


def delay_ms(limits: Limits, chance: float, *, slow: float = 1.0) -> int:
    """base + random × range, stretched while the lane is slowed down."""
    return int((limits.min_delay_ms + chance * (limits.max_delay_ms - limits.min_delay_ms)) * slow)


def _local(now_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(now_ms / 1000, UTC).astimezone(zone)


def _first_instant(day: date, minutes: int, zone: ZoneInfo) -> int:
    """A local wall-clock time as an instant; the first where it comes twice, the moment of the change where it is
    skipped."""
    return min(_instants(day, minutes, zone))


def _last_instant(day: date, minutes: int, zone: ZoneInfo) -> int:
    return max(_instants(day, minutes, zone))


def _instants(day: date, minutes: int, zone: ZoneInfo) -> tuple[int, int]:
    # adding to an aware datetime moves the wall clock, which is what is meant here
    wall = datetime(day.year, day.month, day.day, tzinfo=zone) + timedelta(minutes=minutes)
    first, second = (int(wall.replace(fold=fold).astimezone(UTC).timestamp() * 1000) for fold in (0, 1))
    if first <= second:
        return first, second
    # skipped: the change lies between the two readings, on a full minute
    before, after = second, first
    while after - before > 60_000:
        middle = (before + after) // 120_000 * 60_000
        if _local(middle, zone).utcoffset() == _local(after, zone).utcoffset():
            after = middle
        else:
            before = middle
    return after, after
