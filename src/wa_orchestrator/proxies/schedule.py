"""When a proxy is checked next, and what a check makes of it; pure."""

from __future__ import annotations

from collections.abc import Callable

from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.proxies.probe import ProbeKind, ProbeResult

_JITTER = 0.2  # spreads the checks: many proxies added at once would otherwise be checked at once for ever
_FIRST_RETEST_S = 15.0
_LONGEST_RETEST_S = 15 * 60.0  # a proxy that comes back should not wait for hours
_MOST_DOUBLINGS = 10  # far beyond the cap; keeps 2**n small


def next_check_in_s(status: ProxyStatus, failures: int, *, interval_s: float, random: Callable[[], float]) -> float:
    """Seconds until the next check. `failures` are those in a row up to now; `random` gives values from 0 to 1."""
    if status is ProxyStatus.ACTIVE:
        base = interval_s
    elif status is ProxyStatus.TESTING and failures == 0:
        return 0.0  # nobody can use it before its first check
    else:
        doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
        base = min(_FIRST_RETEST_S * 2**doublings, _LONGEST_RETEST_S)
    return base * (1 - _JITTER + 2 * _JITTER * random())


def failures_after(failures: int, result: ProbeResult) -> int:
    """Failures in a row, this check included. An unreachable target is not the proxy's failure."""
    if result.ok:
        return 0
    return failures if result.kind is ProbeKind.TARGET else failures + 1


def verdict(was: ProxyStatus, failures: int, result: ProbeResult, *, bad_after: int) -> ProxyStatus:
    """The status after a check. `failures` are those in a row before it; `bad_after=1` lets one failure decide."""
    if result.ok:
        return ProxyStatus.ACTIVE
    if result.kind is ProbeKind.TARGET:
        return was  # the target may be down for everyone: neither proof against the proxy nor for it
    return ProxyStatus.BAD if failures_after(failures, result) >= bad_after else was
