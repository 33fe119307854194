"""Trust grows with the age of the phone's first connection."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.model.trust import LEVELS, trust_of

NOW = 1_700_000_000_000
DAY = 86_400_000


@pytest.mark.parametrize(
    ("age_ms", "level", "daily"),
    [
        (0, "cold", 20),
        (3 * DAY - 1, "cold", 20),
        (3 * DAY, "warm", 100),
        (14 * DAY - 1, "warm", 100),
        (14 * DAY, "hot", 500),
        (5000 * DAY, "hot", 500),
        (-DAY, "cold", 20),  # a clock that was set back
    ],
)
def test_level_and_daily_limit_by_age(age_ms: int, level: str, daily: int) -> None:
    found = trust_of(NOW - age_ms, NOW)
    assert (found.level, found.daily_limit) == (level, daily)


def test_a_phone_that_never_connected_is_cold() -> None:
    assert trust_of(None, NOW).level == "cold"


@given(st.integers(0, NOW), st.integers(0, NOW))
def test_an_older_phone_is_never_trusted_less(one: int, other: int) -> None:
    younger, older = sorted((one, other))
    assert trust_of(NOW - older, NOW).daily_limit >= trust_of(NOW - younger, NOW).daily_limit


def test_the_levels_are_those_of_the_specification() -> None:
    assert {(t.level, t.from_day, t.daily_limit) for t in LEVELS} == {
        ("cold", 0, 20),
        ("warm", 3, 100),
        ("hot", 14, 500),
    }
