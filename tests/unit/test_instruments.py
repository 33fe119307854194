"""What a process counts about itself."""

from __future__ import annotations

import asyncio

import pytest

from wa_orchestrator.background import repeat
from wa_orchestrator.metrics.families import _histogram
from wa_orchestrator.metrics.instruments import Rounds, Times, rounds


def test_a_duration_falls_into_the_first_bucket_that_holds_it() -> None:
    times = Times(0.1, 1.0)
    for seconds in (0.05, 0.1, 0.5, 7.0):
        times.add(seconds)
    assert times.counts == [2, 1, 1]
    assert times.total_s == pytest.approx(7.65)


def test_many_durations_at_once_count_like_one_after_the_other() -> None:
    one, many = Times(0.1, 1.0), Times(0.1, 1.0)
    durations_ms = [0.0, 50.0, 100.0, 100.5, 500.0, 7000.0]
    for duration_ms in durations_ms:
        one.add(duration_ms / 1000)
    many.add_all_ms(durations_ms)
    many.add_all_ms([])
    assert many.counts == one.counts == [3, 2, 1]
    assert many.total_s == pytest.approx(one.total_s)


def test_prometheus_sees_cumulative_buckets() -> None:
    times = Times(0.1, 1.0)
    for seconds in (0.05, 0.5, 7.0):
        times.add(seconds)
    samples = {(s.name, s.labels.get("le")): s.value for s in _histogram("wa_x_seconds", "x", times).samples}
    assert samples == {
        ("wa_x_seconds_bucket", "0.1"): 1,
        ("wa_x_seconds_bucket", "1.0"): 2,
        ("wa_x_seconds_bucket", "+Inf"): 3,
        ("wa_x_seconds_count", None): 3,
        ("wa_x_seconds_sum", None): pytest.approx(7.55),
    }


def test_a_service_that_was_stopped_does_not_look_stuck() -> None:
    seen = Rounds()
    seen.begun("watchdog", every_s=60)
    seen.ended("watchdog", well=False)
    assert seen.failures["watchdog"] == 1
    assert seen.ages_s()["watchdog"] < 1
    seen.over("watchdog")
    assert seen.ages_s() == {}
    assert seen.failures["watchdog"] == 1, "a counter never goes back"


async def test_every_background_service_is_seen_while_it_runs() -> None:
    stop, turns = asyncio.Event(), 0

    async def once() -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            raise RuntimeError("the second round fails")
        if turns == 3:
            assert rounds.every_s["tested"] == 0.001
            assert "tested" in rounds.ages_s()
            stop.set()

    before = rounds.failures["tested"]
    await asyncio.wait_for(repeat(once, stop, every_s=0.001, name="tested"), timeout=10)
    assert rounds.failures["tested"] == before + 1
    assert "tested" not in rounds.ages_s()
