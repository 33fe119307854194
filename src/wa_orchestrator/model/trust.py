"""How far a phone is trusted, by its age since it first connected, and what that allows. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Trust:
    level: Literal["cold", "warm", "hot"]
    from_day: int
    daily_limit: int


LEVELS = (Trust("hot", 14, 500), Trust("warm", 3, 100), Trust("cold", 0, 20))


def trust_of(first_connected_at: int | None, now_ms: int) -> Trust:
    """A phone that never connected is cold."""
    age_days = max(0, now_ms - first_connected_at) / _DAY_MS if first_connected_at is not None else 0
    return next(level for level in LEVELS if age_days >= level.from_day)
