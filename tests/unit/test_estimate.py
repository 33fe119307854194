"""When a message will probably leave: never before it may, never earlier for a longer queue."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.dispatcher.estimate import estimated_send_at

DAY, HOUR = 86_400_000, 3_600_000
MIDNIGHT = 1_780_272_000_000  # 2026-06-01 00:00 UTC
NINE, NOON, EVENING = MIDNIGHT + 9 * HOUR, MIDNIGHT + 12 * HOUR, MIDNIGHT + 21 * HOUR


def lane(**wanted: Any) -> dict[str, Any]:
    values = {"pending": 0, "minDelay": 5000, "maxDelay": 8000, "opensAt": NINE, "closesAt": EVENING, "daily": 20,
              "dayCount": 0, "dayEndsAt": MIDNIGHT + DAY, "nextOpensAt": NINE + DAY, "perMinute": 5}  # fmt: skip
    return {**values, **wanted}


def estimate(snapshot: dict[str, Any], *, now_ms: int, schedule_at: int | None = None) -> int:
    found = estimated_send_at(snapshot, now_ms=now_ms, schedule_at=schedule_at)
    assert found is not None
    return found


def test_an_empty_lane_sends_at_once() -> None:
    assert estimate(lane(), now_ms=NOON) == NOON


def test_a_lane_without_a_plan_promises_nothing_but_now() -> None:
    assert estimate({"pending": 3}, now_ms=NOON) == NOON


def test_each_message_ahead_costs_a_delay_or_its_share_of_the_minute() -> None:
    assert estimate(lane(pending=3), now_ms=NOON) == NOON + 3 * 12_000
    assert estimate(lane(pending=3, perMinute=None), now_ms=NOON) == NOON + 3 * 6500
    assert estimate(lane(pending=3, perMinute=None, slow=4), now_ms=NOON) == NOON + 12 * 6500


def test_before_the_hours_it_is_their_beginning() -> None:
    assert estimate(lane(), now_ms=MIDNIGHT + HOUR) == NINE


def test_after_the_hours_it_is_the_next_morning() -> None:
    assert estimate(lane(), now_ms=EVENING + HOUR) == NINE + DAY


def test_over_the_day_limit_it_is_a_later_day() -> None:
    assert estimate(lane(dayCount=20), now_ms=NOON) == NINE + DAY
    assert estimate(lane(pending=20), now_ms=NOON) == NINE + DAY
    assert estimate(lane(pending=45, dayCount=20), now_ms=NOON) == NINE + 3 * DAY + 5 * 12_000


def test_a_queue_longer_than_the_hours_goes_on_the_next_day() -> None:
    found = estimate(lane(pending=10, perMinute=None, daily=None), now_ms=EVENING - 13_000)
    assert found == NINE + DAY + 8 * 6500


def test_without_hours_the_next_day_begins_at_midnight() -> None:
    endless = lane(opensAt=MIDNIGHT, closesAt=NOON + 2 * DAY, nextOpensAt=MIDNIGHT + DAY, dayCount=20)
    assert estimate(endless, now_ms=NOON) == MIDNIGHT + DAY


def test_a_block_and_a_planned_time_are_waited_for() -> None:
    assert estimate(lane(blockedUntil=NOON + HOUR), now_ms=NOON) == NOON + HOUR
    assert estimate(lane(pending=99), now_ms=NOON, schedule_at=NOON + 2 * HOUR) == NOON + 2 * HOUR
    assert estimate(lane(), now_ms=NOON, schedule_at=MIDNIGHT + 5 * DAY) == NINE + 5 * DAY
    assert estimate(lane(), now_ms=NOON, schedule_at=NOON + 5 * DAY) == NOON + 5 * DAY


def test_a_phone_that_may_send_nothing_gives_an_answer_all_the_same() -> None:
    assert estimate(lane(daily=0, pending=9), now_ms=NOON) == NINE + DAY


lanes = st.builds(
    lane,
    minDelay=st.integers(0, 10_000), maxDelay=st.integers(10_000, 60_000), daily=st.none() | st.integers(0, 200),
    dayCount=st.integers(0, 250), perMinute=st.none() | st.integers(0, 60), slow=st.none() | st.sampled_from([2, 32]),
    nextDue=st.none() | st.integers(NOON - HOUR, NOON + HOUR),
)  # fmt: skip


@given(lanes, st.integers(0, 3000), st.integers(0, 500), st.integers(MIDNIGHT, MIDNIGHT + DAY - 1))
def test_it_is_within_the_hours_not_before_now_and_grows_with_the_queue(
    snapshot: dict[str, Any], pending: int, more: int, now: int
) -> None:
    first = estimate({**snapshot, "pending": pending}, now_ms=now)
    second = estimate({**snapshot, "pending": pending + more}, now_ms=now)
    assert now <= first <= second
    for found in (first, second):
        assert NINE <= MIDNIGHT + (found - MIDNIGHT) % DAY <= EVENING
    daily = snapshot["daily"]
    if daily:
        assert second >= now + ((pending + more) // daily - 1) * DAY


@given(lanes, st.integers(0, 3000), st.integers(MIDNIGHT, MIDNIGHT + DAY - 1))
def test_it_is_not_later_than_the_limits_allow(snapshot: dict[str, Any], pending: int, now: int) -> None:
    if snapshot["daily"] == 0:
        return
    gap = max(60_000 * 32, 60_000)
    days = pending // min(snapshot["daily"] or 10**9, 12 * HOUR // gap) + 3
    assert estimate({**snapshot, "pending": pending}, now_ms=now) <= now + days * DAY


def test_nothing_is_promised_while_somebody_has_to_act_first() -> None:
    assert estimated_send_at(lane(stuck=True), now_ms=NOON) is None
    assert estimated_send_at(lane(stuck=True), now_ms=NOON, schedule_at=NOON + DAY) is None
