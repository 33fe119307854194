"""The same trouble again and again is told less and less often."""

from __future__ import annotations

from wa_orchestrator.background import SameTrouble


def test_it_is_told_at_powers_of_two_and_anew_when_it_was_over() -> None:
    now = 1000.0
    trouble = SameTrouble(forgotten_after_s=60, monotonic=lambda: now)
    told = []
    for _ in range(100):
        told.append(trouble.again())
        now += 1
    assert [times for times in told if times] == [1, 2, 4, 8, 16, 32, 64]
    now += 61
    assert trouble.again() == 1
