"""When a phone may send: windows, days and turning points, in every zone and across both clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.dispatcher.pacing import delay_ms, next_trust_change, plan_lane, sending_window
from wa_orchestrator.model.lane import LanePlan
from wa_orchestrator.model.limits import Burst, Effective, Hours, Limits, effective_limits, read_hours
from wa_orchestrator.model.trust import trust_of

DAY_MS = 86_400_000
JERUSALEM, NEW_YORK = "Asia/Jerusalem", "America/New_York"


def at(zone: str, text: str, *, fold: int = 0) -> int:
    """A local wall-clock time as ms."""
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1000)


def hours(text: str | None) -> Hours | None:
    return read_hours(text)


def effective(zone: str, between: str | None, *, changes_at: int | None = None, **wanted: object) -> Effective:
    values: dict[str, object] = {"daily": 20, "per_minute": 5, "min_delay_ms": 1, "max_delay_ms": 2,
                                 "hours": hours(between), "burst": Burst(20, 30_000), "timezone": zone}  # fmt: skip
    limits = Limits(**{**values, **wanted})  # type: ignore[arg-type]
    return Effective(limits=limits, sources={}, preset="standard", changes_at=changes_at)


def planned(zone: str, between: str | None, now: int) -> LanePlan:
    return plan_lane(effective(zone, between), first_connected_at=None, now_ms=now)


@pytest.mark.parametrize(
    ("zone", "between", "now", "opens", "closes"),
    [
        (JERUSALEM, "09:00-21:00", "2026-06-01T08:59:59", "2026-06-01T09:00", "2026-06-01T21:00"),
        (JERUSALEM, "09:00-21:00", "2026-06-01T09:00", "2026-06-01T09:00", "2026-06-01T21:00"),
        (JERUSALEM, "09:00-21:00", "2026-06-01T21:00", "2026-06-02T09:00", "2026-06-02T21:00"),
        (NEW_YORK, "22:00-02:00", "2026-06-01T23:00", "2026-06-01T22:00", "2026-06-02T02:00"),
        (NEW_YORK, "22:00-02:00", "2026-06-02T01:00", "2026-06-01T22:00", "2026-06-02T02:00"),
        (NEW_YORK, "22:00-02:00", "2026-06-02T02:00", "2026-06-02T22:00", "2026-06-03T02:00"),
        # clocks forward: 27 March in Jerusalem at 02:00, 8 March in New York at 02:00
        (JERUSALEM, "09:00-21:00", "2026-03-26T22:00", "2026-03-27T09:00", "2026-03-27T21:00"),
        (JERUSALEM, "22:00-06:00", "2026-03-26T23:00", "2026-03-26T22:00", "2026-03-27T06:00"),
        (JERUSALEM, "02:30-12:00", "2026-03-27T00:00", "2026-03-27T03:00", "2026-03-27T12:00"),
        (NEW_YORK, "00:30-02:30", "2026-03-08T01:00", "2026-03-08T00:30", "2026-03-08T03:00"),
        # clocks back: 25 October in Jerusalem at 02:00, 1 November in New York at 02:00
        (JERUSALEM, "09:00-21:00", "2026-10-24T22:00", "2026-10-25T09:00", "2026-10-25T21:00"),
        (NEW_YORK, "07:00-23:00", "2026-10-31T23:30", "2026-11-01T07:00", "2026-11-01T23:00"),
    ],
)
def test_the_window_that_is_open_or_the_next_one(zone: str, between: str, now: str, opens: str, closes: str) -> None:
    found = sending_window(hours(between), ZoneInfo(zone), at(zone, now))
    assert found == (at(zone, opens), at(zone, closes))


def test_an_hour_that_comes_twice_is_used_once() -> None:
    opens, _ = sending_window(hours("01:30-05:00"), ZoneInfo(NEW_YORK), at(NEW_YORK, "2026-11-01T00:00"))
    assert opens == at(NEW_YORK, "2026-11-01T01:30", fold=1)
    _, closes = sending_window(hours("00:00-01:30"), ZoneInfo(NEW_YORK), at(NEW_YORK, "2026-11-01T00:00"))
    assert closes == at(NEW_YORK, "2026-11-01T01:30", fold=0)


def test_a_window_that_a_clock_change_swallows_is_passed_over() -> None:
    opens, _ = sending_window(hours("02:10-02:50"), ZoneInfo(NEW_YORK), at(NEW_YORK, "2026-03-08T01:00"))
    assert opens == at(NEW_YORK, "2026-03-09T02:10")


@pytest.mark.parametrize("between", [None, "00:00-24:00"])
def test_without_hours_it_is_always_open(between: str | None) -> None:
    now = at(JERUSALEM, "2026-06-01T23:59:59")
    plan = planned(JERUSALEM, between, now)
    assert plan.opens_at <= now
    assert plan.closes_at > plan.day_ends_at
    assert plan.next_opens_at == plan.day_ends_at == plan.replan_at


@pytest.mark.parametrize(
    ("zone", "day", "length_h"),
    [
        (JERUSALEM, "2026-06-01", 24),
        (JERUSALEM, "2026-03-27", 23),
        (JERUSALEM, "2026-10-25", 25),
        (NEW_YORK, "2026-03-08", 23),
        (NEW_YORK, "2026-11-01", 25),
        ("Asia/Beirut", "2026-03-29", 23),  # midnight itself is skipped
        ("America/Havana", "2026-11-01", 25),  # midnight comes twice
    ],
)
def test_a_day_lasts_from_midnight_to_midnight(zone: str, day: str, length_h: int) -> None:
    plan = planned(zone, "09:00-21:00", at(zone, f"{day}T12:00"))
    assert plan.day_key == day
    assert plan.day_ends_at - plan.day_starts_at == length_h * 3_600_000
    last = planned(zone, "09:00-21:00", plan.day_ends_at - 1)
    assert (last.day_key, last.day_ends_at) == (day, plan.day_ends_at)
    assert planned(zone, "09:00-21:00", plan.day_ends_at).day_key > day


def test_the_next_day_begins_when_its_hours_open() -> None:
    plan = planned(JERUSALEM, "09:00-21:00", at(JERUSALEM, "2026-06-01T12:00"))
    assert plan.next_opens_at == at(JERUSALEM, "2026-06-02T09:00")
    overnight = planned(JERUSALEM, "22:00-02:00", at(JERUSALEM, "2026-06-01T23:00"))
    assert overnight.next_opens_at == at(JERUSALEM, "2026-06-02T00:00")


def test_it_is_planned_again_at_the_nearest_turning_point() -> None:
    now = at(JERUSALEM, "2026-06-01T12:00")
    first = now - 3 * DAY_MS + 1000  # warm in a second
    closes = at(JERUSALEM, "2026-06-01T21:00")
    midnight = at(JERUSALEM, "2026-06-02T00:00")
    cases = [
        (effective(JERUSALEM, "09:00-21:00"), None, closes),
        (effective(JERUSALEM, None), None, midnight),
        (effective(JERUSALEM, "09:00-21:00"), first, now + 1000),
        (effective(JERUSALEM, "09:00-21:00", changes_at=now + 500), first, now + 500),
    ]
    for limits, connected, expected in cases:
        assert plan_lane(limits, first_connected_at=connected, now_ms=now).replan_at == expected


@pytest.mark.parametrize(("age_days", "next_day"), [(0, 3), (2.99, 3), (3, 14), (13.99, 14), (14, None), (90, None)])
def test_trust_changes_at_three_and_fourteen_days(age_days: float, next_day: int | None) -> None:
    first = 1_700_000_000_000
    found = next_trust_change(first, first + int(age_days * DAY_MS))
    assert found == (None if next_day is None else first + next_day * DAY_MS)


def test_the_limits_are_those_of_the_new_level_from_the_turning_point_on() -> None:
    first = at(JERUSALEM, "2026-06-01T12:00")

    def at_age(ms: int) -> LanePlan:
        now = first + ms
        found = effective_limits(trust=trust_of(first, now), default_preset="standard", timezone=JERUSALEM,
                                 burst=Burst(20, 1), overrides=[], now_ms=now)  # fmt: skip
        return plan_lane(found, first_connected_at=first, now_ms=now)

    assert at_age(3 * DAY_MS - 1).replan_at == first + 3 * DAY_MS
    assert [at_age(ms).daily for ms in (3 * DAY_MS - 1, 3 * DAY_MS, 14 * DAY_MS - 1, 14 * DAY_MS)] == [
        20,
        100,
        100,
        500,
    ]


@given(st.floats(0, 1), st.floats(1, 32))
def test_a_delay_lies_between_its_ends_times_the_slow_down(chance: float, slow: float) -> None:
    limits = effective(JERUSALEM, None, min_delay_ms=2000, max_delay_ms=4000).limits
    assert 2000 * slow - 1 <= delay_ms(limits, chance, slow=slow) <= 4000 * slow


def is_open(between: Hours, local: datetime) -> bool:
    minute = local.hour * 60 + local.minute
    if between.opens < between.closes:
        return between.opens <= minute < between.closes
    return minute >= between.opens or minute < between.closes


@given(
    zone=st.sampled_from([JERUSALEM, NEW_YORK, "Asia/Beirut", "Australia/Lord_Howe", "America/Havana", "UTC"]),
    opens=st.integers(0, 1439),
    closes=st.integers(1, 1440),
    moment=st.datetimes(datetime(2026, 3, 1), datetime(2026, 11, 10)),  # noqa: DTZ001 - a wall clock
    share=st.floats(0, 0.999999),
)
def test_every_moment_of_a_window_is_within_the_hours(
    zone: str, opens: int, closes: int, moment: datetime, share: float
) -> None:
    if opens == closes % 1440:
        return
    between = Hours(opens, closes)
    now = int(moment.replace(tzinfo=UTC).timestamp() * 1000)
    begins, ends = sending_window(between, ZoneInfo(zone), now)
    assert ends > now
    some = datetime.fromtimestamp((begins + int((ends - begins) * share)) / 1000, UTC).astimezone(ZoneInfo(zone))
    assert is_open(between, some)
    assert begins - now <= timedelta(days=3) / timedelta(milliseconds=1)


@given(st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31)), st.sampled_from([JERUSALEM, NEW_YORK]))  # noqa: DTZ001
def test_a_plan_always_ends_in_the_future(moment: datetime, zone: str) -> None:
    now = int(moment.replace(tzinfo=UTC).timestamp() * 1000)
    plan = planned(zone, "09:00-21:00", now)
    assert plan.day_starts_at <= now < plan.replan_at <= plan.day_ends_at
