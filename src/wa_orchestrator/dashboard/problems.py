"""What is wrong and what to do: decided from what the store says. Pure; the words are in the translations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wa_orchestrator.dashboard.looks import Glance, Seen
from wa_orchestrator.model.proxy import Proxy, ProxyStatus
from wa_orchestrator.model.session import Status

Level = Literal["bad", "warn", "hint"]
_LEAST_FREE_BYTES = 500_000_000
_FEW_FREE_SLOTS = 2


@dataclass(frozen=True, kw_only=True)
class Problem:
    """`code` names the words `problem.<code>.what` and `.do`; `links` go to the sessions or pages concerned."""

    code: str
    level: Level
    values: dict[str, Any] = field(default_factory=dict)
    sessions: tuple[str, ...] = ()
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Everything a check-up looks at."""

    now_ms: int
    rows: Sequence[Seen]
    proxies: Sequence[Proxy]
    numbers: Glance
    dead_messages: int
    free_bytes: int
    ping_timeout_ms: int
    alerts_on: bool
    alert_problem: str = ""
    worker_built: bool


def find_problems(here: Circumstances) -> list[Problem]:
    """The worst first."""
    found = [*_sessions(here), *_lanes(here), *_proxies(here), *_messages(here), *_machine(here)]
    order = {"bad": 0, "warn": 1, "hint": 2}
    return sorted(found, key=lambda problem: order[problem.level])


def _sessions(here: Circumstances) -> list[Problem]:
    by_reason: dict[tuple[Status, str], list[str]] = defaultdict(list)
    for row in here.rows:
        if row.tone in {"bad", "warn"}:
            by_reason[row.status, row.reason].append(row.id)
    found = [
        Problem(code="session", level="bad" if status in {Status.FAILED, Status.LOGGED_OUT} else "warn",
                values={"status": status.value, "reason": reason}, sessions=tuple(ids))
        for (status, reason), ids in by_reason.items()
    ]  # fmt: skip
    silent = tuple(
        row.id
        for row in here.rows
        if row.status is Status.CONNECTED and row.last_ping and here.now_ms - row.last_ping > here.ping_timeout_ms
    )
    if silent:
        found.append(Problem(code="silent", level="warn", sessions=silent))
    unscanned = tuple(row.id for row in here.rows if row.status is Status.QR_READY)
    if unscanned:
        found.append(Problem(code="unscanned", level="hint", sessions=unscanned))
    return found


def _lanes(here: Circumstances) -> list[Problem]:
    found: list[Problem] = []
    for code, level in (("blocked", "bad"), ("slowed", "warn"), ("full", "hint")):
        held = tuple(row.id for row in here.rows if row.why_slow == code)
        if held:
            found.append(Problem(code=code, level=level, sessions=held, link="/anti-ban"))  # type: ignore[arg-type]
    return found


def _proxies(here: Circumstances) -> list[Problem]:
    if not here.proxies:
        return [Problem(code="no_proxies", level="bad", link="/proxies")]
    found = [
        Problem(
            code="proxy_bad", level="bad" if proxy.sessions else "warn", link="/proxies",
            values={"place": f"{proxy.address.host}:{proxy.address.port}", "kind": proxy.last_error_kind or "unknown"},
            sessions=proxy.sessions,
        )
        for proxy in here.proxies
        if proxy.status is not ProxyStatus.ACTIVE
    ]  # fmt: skip
    if here.numbers.free_slots == 0:
        found.append(Problem(code="no_slots", level="warn", link="/proxies"))
    elif here.numbers.free_slots <= _FEW_FREE_SLOTS:
        found.append(Problem(code="few_slots", level="hint", values={"n": here.numbers.free_slots}, link="/proxies"))
    return found


def _messages(here: Circumstances) -> list[Problem]:
    found: list[Problem] = []
    if here.dead_messages:
        found.append(
            Problem(code="dead", level="warn", values={"n": here.dead_messages}, link="/messages?status=failed")
        )
    if here.numbers.queue and not here.numbers.connected:
        found.append(Problem(code="nobody_sends", level="bad", values={"n": here.numbers.queue}, link="/scan"))
    return found


def _machine(here: Circumstances) -> list[Problem]:
    found: list[Problem] = []
    if here.free_bytes < _LEAST_FREE_BYTES:
        found.append(Problem(code="disk", level="bad", values={"mb": here.free_bytes // 1_000_000}))
    if not here.worker_built:
        found.append(Problem(code="no_worker", level="bad"))
    if here.alerts_on and here.alert_problem:
        level: Level = "warn" if here.alert_problem == "away" else "bad"
        found.append(Problem(code=f"alerts_{here.alert_problem}", level=level, link="/alerts"))
    if not here.alerts_on:
        found.append(Problem(code="no_alerts", level="hint"))
    return found
