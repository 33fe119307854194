"""When daily and periodic work is due, over clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.scheduler.due import Daily, Every, read_time
from wa_orchestrator.settings import load_settings

JERUSALEM = Daily(time(3, 0), "Asia/Jerusalem")


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("after", "due"),
    [
        ("2026-11-15T00:00:00", "2026-11-15T01:00:00"),  # 03:00 at UTC+2
        ("2026-11-15T00:59:59", "2026-11-15T01:00:00"),
        ("2026-11-15T01:00:00", "2026-11-16T01:00:00"),  # later than, never the same moment again
        ("2026-07-01T12:00:00", "2026-07-02T00:00:00"),  # 03:00 at UTC+3
        ("2026-10-24T01:00:00", "2026-10-25T01:00:00"),  # the clock goes back on the 25th
        ("2026-03-26T01:00:00", "2026-03-27T00:00:00"),  # and forward on the 27th, at 02:00
        ("2026-12-31T23:00:00", "2027-01-01T01:00:00"),
    ],
)
def test_daily_work_is_due_at_its_local_time(after: str, due: str) -> None:
    assert JERUSALEM.next_due(ms(after)) == ms(due)


def test_a_time_that_the_clock_skips_comes_as_much_later() -> None:
    skipped = Daily(time(2, 30), "Europe/Berlin")  # 29 March 2026: 02:00 becomes 03:00
    assert skipped.next_due(ms("2026-03-28T12:00:00")) == ms("2026-03-29T01:30:00")  # 03:30 there
    assert skipped.next_due(ms("2026-03-29T01:30:00")) == ms("2026-03-30T00:30:00")


def test_a_time_that_the_clock_shows_twice_comes_once() -> None:
    twice = Daily(time(2, 30), "Europe/Berlin")  # 25 October 2026: 03:00 becomes 02:00
    first = twice.next_due(ms("2026-10-24T12:00:00"))
    assert first == ms("2026-10-25T00:30:00")
    assert twice.next_due(first) == ms("2026-10-26T01:30:00")


def test_a_year_has_as_many_due_times_as_days() -> None:
    moment, count = ms("2025-12-31T22:00:00"), 0  # midnight of the new year there
    while (moment := JERUSALEM.next_due(moment)) < ms("2026-12-31T22:00:00"):
        count += 1
    assert count == 365


def test_periodic_work_is_due_so_long_after() -> None:
    assert Every(60).next_due(1000) == 61_000


@pytest.mark.parametrize(
    ("text", "found"), [("03:00", time(3, 0)), ("3:05", time(3, 5)), ("off", None), ("24:00", None)]
)
def test_times_of_day_are_read(text: str, found: time | None) -> None:
    assert read_time(text) == found


@pytest.mark.parametrize("value", ["3", "25:00", "03:60", "3am", "never", "0 3 * * *"])
def test_a_wrong_time_stops_the_start_with_one_sentence(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^BACKUP_AT must be a time of day such as 03:00, or off, not '.*'\.$"):
        load_settings({"BACKUP_AT": value})
