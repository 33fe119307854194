"""Since when a worker's silence means something."""

from __future__ import annotations

from wa_orchestrator.watchdog.hearing import Hearing

NOW = 1_700_000_000_000


def look(hearing: Hearing, at_s: float, *, clock_off_s: float = 0.0) -> int:
    """The moment, in seconds after NOW, from which silence counts."""
    since = hearing.look(now_ms=NOW + int((at_s + clock_off_s) * 1000), monotonic_s=100 + at_s)
    return (since - NOW) // 1000


def test_it_counts_from_the_first_look_on() -> None:
    hearing = Hearing(every_s=60)
    assert [look(hearing, at) for at in (0, 60, 121, 185)] == [0, 0, 0, 0]


def test_it_counts_anew_after_an_absence() -> None:
    hearing = Hearing(every_s=60)
    look(hearing, 0)
    assert look(hearing, 600) == 600
    assert look(hearing, 660) == 600


def test_it_counts_anew_after_a_round_that_the_store_refused() -> None:
    hearing = Hearing(every_s=60)
    look(hearing, 0)
    hearing.lost(now_ms=NOW + 30_000)
    assert hearing.since_ms == NOW + 30_000
    assert look(hearing, 60) == 60


def test_it_counts_anew_when_the_clock_jumped() -> None:
    hearing = Hearing(every_s=60)
    look(hearing, 0)
    assert look(hearing, 60, clock_off_s=86_400) == 86_460
    assert look(hearing, 120, clock_off_s=86_400) == 86_460
    assert look(hearing, 180) == 180, "and back"
