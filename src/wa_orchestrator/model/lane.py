"""A lane: the queue and the pacing of one sending phone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LanePlan:
    """A lane's limits, and the instants between which they hold (ms)."""

    daily: int | None
    per_minute: int | None
    min_delay_ms: int
    max_delay_ms: int
    burst_count: int | None
    burst_pause_ms: int
    opens_at: int
    closes_at: int
    next_opens_at: int  # the first moment of the next day at which it may send
    day_key: str
    day_starts_at: int
    day_ends_at: int
    replan_at: int
