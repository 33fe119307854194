"""When a receiver is tried again, and when an event is given up."""

from __future__ import annotations

from wa_orchestrator.events.retrying import AWAY_AFTER, is_over, receiver_pause_ms, session_pause_ms, still_waits

DAY_MS = 24 * 3600 * 1000


def test_pauses_grow_to_a_limit_and_never_beyond() -> None:
    pauses = [session_pause_ms(n, 1.0) for n in range(1, 60)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 50
    assert pauses[-1] == 600_000
    assert receiver_pause_ms(AWAY_AFTER, 1.0) == 200
    assert receiver_pause_ms(10**6, 1.0) == 120_000


def test_chance_spreads_each_pause_over_its_second_half() -> None:
    assert session_pause_ms(5, 0.0) == session_pause_ms(5, 1.0) // 2


def test_an_event_is_tried_for_days_from_the_first_failure() -> None:
    def over(noted_at: int, since: int, now: int) -> bool:
        return is_over(noted_at=noted_at, failing_since=since, now_ms=now, retry_ms=3 * DAY_MS)

    assert not over(0, DAY_MS, 4 * DAY_MS - 1)
    assert over(0, DAY_MS, 4 * DAY_MS)
    # noted while the receiver was already away: it has its own three days
    assert not over(2 * DAY_MS, 0, 4 * DAY_MS)
    # the server was off for a week: what is old is not given up at its first failure
    assert not over(0, 7 * DAY_MS, 7 * DAY_MS + 1)


def test_a_moment_of_a_clock_that_was_ahead_is_not_waited_for() -> None:
    now, day = 1_700_000_000_000, 86_400_000
    assert still_waits(now + 1, now)
    assert still_waits(now + session_pause_ms(100, 1.0), now), "the longest pause is waited for"
    assert not still_waits(now, now)
    assert not still_waits(now + day, now)
