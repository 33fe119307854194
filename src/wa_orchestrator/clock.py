"""Time, as everything here asks for it: injected, so that days and hours are tested without waiting."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that only moves when told to."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, *, seconds: float) -> None:
        self._now_ms += int(seconds * 1000)


def iso(ms: int | float | str | None) -> str | None:
    """A moment as clients read it; None for none."""
    if not ms:
        return None
    seconds, thousandths = divmod(ms if isinstance(ms, int) else int(float(ms)), 1000)
    return f"{_second(seconds)}.{thousandths:03}+00:00"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    """Most moments that are told lie close together."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
