"""When a receiver that failed is tried again, and when an event is given up. Pure."""

from __future__ import annotations

# An event that is refused while others are taken. Growing by less than two, so that a receiver which fails half of the
# time is served at a steady pace: with two, ever longer pauses would outweigh their being rarer.
_SESSION = (50, 1.6, 10 * 60_000)
# A receiver that is away: it should not wait long when it is back.
_RECEIVER = (200, 2.0, 2 * 60_000)

# A receiver that fails so often in a row, whatever it is sent, is taken to be away: one probe at a time from then on.
AWAY_AFTER = 8
# After so many failures of one session's event, while the receiver takes others, that session waits aside.
PARK_AFTER = 6
# Failing for so long is told: shorter ones are a restart.
TELL_AFTER_MS = 60_000


def session_pause_ms(failures: int, chance: float) -> int:
    """`chance` from 0 to 1: the jitter that keeps many from coming at once."""
    return _pause(failures, *_SESSION, chance)


def receiver_pause_ms(failures: int, chance: float) -> int:
    return _pause(failures - AWAY_AFTER + 1, *_RECEIVER, chance)


def _pause(failures: int, first_ms: int, growth: float, longest_ms: int, chance: float) -> int:
    whole: float = min(longest_ms, first_ms * growth ** min(max(failures, 1) - 1, 60))
    return int(whole * (0.5 + 0.5 * chance))


def still_waits(next_try: int, now_ms: int) -> bool:
    """A moment further away than the longest pause was noted by a clock that was ahead: nobody waits for it."""
    return now_ms < next_try <= now_ms + _SESSION[2]


def is_over(*, noted_at: int, failing_since: int, now_ms: int, retry_ms: int) -> bool:
    """An event is tried for `retry_ms`, counted from the failure that began it, or from the event if that is later."""
    return now_ms - max(noted_at, failing_since) >= retry_ms
