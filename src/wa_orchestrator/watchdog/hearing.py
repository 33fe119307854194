"""Since when a worker's silence means something. Pure.

A ping that could not be noted, because the store was away or full, or this server was not running or has just taken
over, is not the worker's silence. Nor is a clock that jumped ahead. Judged by the last ping alone, all workers of an
installation would be restarted at once after such an hour.
"""

from __future__ import annotations

# a watchdog's round takes moments; what takes longer than this was no round but an absence
_LATE_S = 5.0
_JUMP_MS = 5_000


class Hearing:
    def __init__(self, *, every_s: float) -> None:
        self._longest_gap_s = 1.5 * every_s + _LATE_S
        self._looked: tuple[int, float] | None = None
        self.since_ms = 0

    def look(self, *, now_ms: int, monotonic_s: float) -> int:
        """Once in each round; the moment from which on silence counts."""
        if self._looked is None or self._interrupted(*self._looked, now_ms, monotonic_s):
            self.since_ms = now_ms
        self._looked = (now_ms, monotonic_s)
        return self.since_ms

    def lost(self, *, now_ms: int) -> None:
        """The store did not take or give something: perhaps it took no pings either."""
        self._looked = None
        self.since_ms = now_ms

    def _interrupted(self, was_ms: int, was_s: float, now_ms: int, now_s: float) -> bool:
        passed_s = now_s - was_s
        return passed_s > self._longest_gap_s or abs(now_ms - was_ms - passed_s * 1000) > _JUMP_MS
