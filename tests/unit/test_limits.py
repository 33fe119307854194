"""How much a phone may send: the table, presets, overrides, and what a bad body is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.model.limits import (
    Burst,
    Effective,
    Hours,
    Override,
    effective_limits,
    limits_view,
    override_view,
    read_override,
    strictest,
)
from wa_orchestrator.model.trust import LEVELS, Trust

NOW = 1_700_000_000_000
TRUST: dict[str, Trust] = {level.level: level for level in LEVELS}


def found(trust: Trust = TRUST["cold"], *, preset: str = "standard", **overrides: dict[str, Any]) -> Effective:
    return effective_limits(
        trust=trust, default_preset=preset, timezone="Asia/Jerusalem", burst=Burst(20, 30_000), now_ms=NOW,
        overrides=[(where.rstrip("_"), read_override(body, now_ms=0)) for where, body in overrides.items()],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("level", "daily", "per_minute", "low", "high", "hours"),
    [
        ("cold", 20, 5, 5000, 8000, "09:00-21:00"),
        ("warm", 100, 15, 3000, 5000, "08:00-22:00"),
        ("hot", 500, 30, 2000, 4000, "07:00-23:00"),
    ],
)
def test_the_table_of_the_specification(
    level: str, daily: int, per_minute: int, low: int, high: int, hours: str
) -> None:
    assert limits_view(found(TRUST[level]).limits) == {
        "daily": daily, "perMinute": per_minute, "minDelayMs": low, "maxDelayMs": high, "hours": hours,
        "burst": {"count": 20, "pauseMs": 30_000}, "timezone": "Asia/Jerusalem",
    }  # fmt: skip


@pytest.mark.parametrize(("level", "daily", "low", "high"), [("cold", 10, 3500, 10_400), ("warm", 50, 2100, 6500),
                                                            ("hot", 200, 1400, 5200)])  # fmt: skip
def test_the_cautious_preset_is_the_older_table(level: str, daily: int, low: int, high: int) -> None:
    chosen = found(TRUST[level], preset="cautious")
    assert (chosen.limits.daily, chosen.limits.min_delay_ms, chosen.limits.max_delay_ms) == (daily, low, high)
    assert chosen.sources["daily"] == "preset:cautious"


def test_each_value_tells_where_it_comes_from() -> None:
    chosen = found(global_={"daily": 30, "perMinute": 2}, session={"perMinute": None, "timezone": "UTC"})
    assert (chosen.limits.daily, chosen.limits.per_minute, chosen.limits.timezone) == (30, None, "UTC")
    assert chosen.sources == {
        "daily": "global", "per_minute": "session", "min_delay_ms": "trust:cold", "max_delay_ms": "trust:cold",
        "hours": "trust:cold", "burst": "settings", "timezone": "session",
    }  # fmt: skip


def test_null_means_no_such_limit() -> None:
    body = {"daily": None, "perMinute": None, "minDelayMs": None, "maxDelayMs": None, "hours": None, "burst": None}
    limits = found(session=body).limits
    assert (limits.daily, limits.per_minute, limits.hours, limits.burst) == (None, None, None, None)
    assert (limits.min_delay_ms, limits.max_delay_ms) == (0, 0)


def test_an_override_that_ended_no_longer_counts() -> None:
    chosen = found(session={"daily": 1, "until": NOW + 1})
    assert (chosen.limits.daily, chosen.changes_at) == (1, NOW + 1)
    assert found(session={"daily": 1, "until": NOW}).limits.daily == 20


def test_the_nearest_end_of_an_override_is_told() -> None:
    assert found(global_={"until": NOW + 9}, session={"until": NOW + 5}).changes_at == NOW + 5


def test_a_preset_set_by_hand_wins_over_the_setting() -> None:
    assert found(global_={"preset": "cautious"}).limits.daily == 10
    assert found(preset="cautious", session={"preset": "standard"}).limits.daily == 20


@pytest.mark.parametrize(
    ("body", "low", "high"), [({"minDelayMs": 60_000}, 60_000, 60_000), ({"maxDelayMs": 10}, 10, 10)]
)
def test_one_end_of_the_delay_never_crosses_the_other(body: dict[str, int], low: int, high: int) -> None:
    limits = found(session=body).limits
    assert (limits.min_delay_ms, limits.max_delay_ms) == (low, high)


def test_of_several_sessions_of_one_phone_the_strictest_counts() -> None:
    one = Override(values={"daily": 50, "per_minute": None, "min_delay_ms": 10, "max_delay_ms": 500,
                           "hours": Hours(540, 600), "burst": Burst(5, 10)})  # fmt: skip
    other = Override(values={"daily": None, "per_minute": 3, "min_delay_ms": 20, "max_delay_ms": 400,
                             "hours": Hours(0, 1440), "burst": Burst(9, 90), "timezone": "UTC"},
                     preset="cautious", until=7)  # fmt: skip
    for merged in (strictest([one, other]), strictest([other, one])):
        assert merged.values == {"daily": 50, "per_minute": 3, "min_delay_ms": 20, "max_delay_ms": 500,
                                 "hours": Hours(540, 600), "burst": Burst(5, 90), "timezone": "UTC"}  # fmt: skip
        assert (merged.preset, merged.until) == ("cautious", 7)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"weekly": 5}, "weekly"),
        ({"daily": -1}, "daily"),
        ({"daily": True}, "daily"),
        ({"daily": "5"}, "daily"),
        ({"daily": 1.5}, "daily"),
        ({"perMinute": 10**9}, "perMinute"),
        ({"minDelayMs": -5}, "minDelayMs"),
        ({"minDelayMs": 9, "maxDelayMs": 8}, "maxDelayMs"),
        ({"hours": "9-21"}, "hours"),
        ({"hours": "09:00-21:00\n"}, "hours"),
        ({"hours": "09:00-09:00"}, "hours"),
        ({"hours": "09:00-24:30"}, "hours"),
        ({"hours": {"from": "09:00"}}, "hours"),
        ({"hours": {"from": "09:00", "to": "10:00", "on": "Monday"}}, "hours"),
        ({"hours": 9}, "hours"),
        ({"burst": 5}, "burst"),
        ({"burst": {"count": 0, "pauseMs": 1}}, "burst.count"),
        ({"burst": {"count": 1}}, "burst.pauseMs"),
        ({"burst": {"count": 1, "pauseMs": 1, "x": 1}}, "burst"),
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"timezone": "../etc/passwd"}, "timezone"),
        ({"timezone": ["UTC"]}, "timezone"),
        ({"preset": "reckless"}, "preset"),
        ({"preset": ["standard"]}, "preset"),
        ({"until": "tomorrow"}, "until"),
        ({"until": "2030-01-01T00:00:00"}, "until"),
        ({"until": 5}, "until"),
        ({"until": "0001-01-01T00:00:00+14:00"}, "until"),
    ],
)
def test_a_bad_body_is_refused_with_the_field_named(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidBody) as refused:
        read_override(body, now_ms=NOW)
    assert refused.value.details == {"field": field}


@pytest.mark.parametrize(
    ("hours", "shown"), [("09:00-21:00", "09:00-21:00"), ("9:05-24:00", "09:05-24:00"), ("22:00-06:00", "22:00-06:00"),
                         ({"from": "08:00", "to": "12:30"}, "08:00-12:30")]
)  # fmt: skip
def test_hours_are_read_in_each_form(hours: object, shown: str) -> None:
    assert override_view(read_override({"hours": hours}, now_ms=NOW)) == {"hours": shown}


def test_what_is_kept_reads_back_the_same() -> None:
    body = {"daily": 5, "perMinute": None, "minDelayMs": 1, "maxDelayMs": 2, "hours": "09:00-10:00",
            "burst": {"count": 1, "pauseMs": 2}, "timezone": "UTC", "preset": "cautious", "until": NOW + 1}  # fmt: skip
    override = read_override(body, now_ms=NOW)
    assert override_view(override) == body
    assert read_override(override_view(override), now_ms=0) == override


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["daily", "perMinute", "minDelayMs", "maxDelayMs", "hours", "burst", "timezone", "until",
                         "preset", "other"])  # fmt: skip


@given(st.dictionaries(names, json_values, max_size=4))
def test_any_body_is_read_or_refused_with_a_field(body: dict[str, Any]) -> None:
    named: object = "nothing is wrong"
    try:
        read_override(body, now_ms=NOW)
    except InvalidBody as error:
        named = (error.details or {}).get("field")
    assert named
