"""When a proxy is checked next and what a check makes of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.proxies.probe import ProbeKind, ProbeResult
from wa_orchestrator.proxies.schedule import failures_after, next_check_in_s, verdict

GOOD = ProbeResult(ok=True, text="Works.", latency_ms=10, proxy_works=True)
STATUSES = list(ProxyStatus)


def failed(kind: ProbeKind) -> ProbeResult:
    return ProbeResult(ok=False, text="No.", kind=kind, proxy_works=kind is ProbeKind.TARGET)


def in_the_middle() -> float:
    return 0.5


@pytest.mark.parametrize(("drawn", "expected"), [(0.0, 24.0), (0.5, 30.0), (1.0, 36.0)])
def test_active_proxy_is_checked_every_interval_give_or_take_a_fifth(drawn: float, expected: float) -> None:
    assert next_check_in_s(ProxyStatus.ACTIVE, 2, interval_s=30, random=lambda: drawn) == pytest.approx(expected)


def test_bad_proxy_is_retested_with_growing_pauses_up_to_a_quarter_of_an_hour() -> None:
    pauses = [
        next_check_in_s(ProxyStatus.BAD, failures, interval_s=30, random=in_the_middle)
        for failures in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10_000)
    ]
    assert pauses == pytest.approx([15, 15, 30, 60, 120, 240, 480, 900, 900, 900])


def test_new_proxy_is_checked_at_once_and_then_with_back_off() -> None:
    assert next_check_in_s(ProxyStatus.TESTING, 0, interval_s=30, random=in_the_middle) == 0
    assert next_check_in_s(ProxyStatus.TESTING, 1, interval_s=30, random=in_the_middle) == pytest.approx(15)


@given(st.sampled_from([ProxyStatus.ACTIVE, ProxyStatus.BAD]), st.integers(0, 100), st.floats(0, 1))
def test_pause_is_never_short_or_endless(status: ProxyStatus, failures: int, drawn: float) -> None:
    pause = next_check_in_s(status, failures, interval_s=30, random=lambda: drawn)
    assert 12 - 1e-9 <= pause <= 900 * 1.2 + 1e-9


@pytest.mark.parametrize("was", STATUSES)
def test_one_success_makes_active(was: ProxyStatus) -> None:
    assert verdict(was, 0, GOOD, bad_after=3) is ProxyStatus.ACTIVE


@pytest.mark.parametrize("was", STATUSES)
def test_unreachable_target_changes_nothing_however_often(was: ProxyStatus) -> None:
    assert verdict(was, 99, failed(ProbeKind.TARGET), bad_after=3) is was
    assert failures_after(2, failed(ProbeKind.TARGET)) == 2


@pytest.mark.parametrize("kind", [kind for kind in ProbeKind if kind is not ProbeKind.TARGET])
def test_failures_in_a_row_make_bad_at_the_limit_and_not_before(kind: ProbeKind) -> None:
    status, failures, seen = ProxyStatus.ACTIVE, 0, []
    for _ in range(4):
        status = verdict(status, failures, failed(kind), bad_after=3)
        failures = failures_after(failures, failed(kind))
        seen.append(status)
    assert seen == [ProxyStatus.ACTIVE, ProxyStatus.ACTIVE, ProxyStatus.BAD, ProxyStatus.BAD]


def test_one_failure_decides_where_one_is_enough() -> None:
    assert verdict(ProxyStatus.ACTIVE, 0, failed(ProbeKind.AUTH), bad_after=1) is ProxyStatus.BAD


def test_success_in_between_starts_the_count_anew() -> None:
    assert failures_after(2, GOOD) == 0


def test_bad_proxy_stays_bad_until_it_works() -> None:
    assert verdict(ProxyStatus.BAD, 1, failed(ProbeKind.TIMEOUT), bad_after=3) is ProxyStatus.BAD
