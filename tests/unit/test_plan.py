"""Wanted versus running: the one step that closes the gap."""

from __future__ import annotations

import itertools

import pytest

from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.runners.port import RunningWorker
from wa_orchestrator.sessions.plan import Step, next_step
from wa_orchestrator.sessions.reconciler import pause_before_restart_s


def session(wanted: Wanted = Wanted.RUNNING, *, proxy: str = "px_a", order: int = 1, waiting: bool = False) -> Session:
    return Session(
        session_id="a", status=Status.PENDING, wanted=wanted, created_at=1, proxy_id=proxy, run_order=order,
        waiting_for_proxy=waiting,
    )  # fmt: skip


def worker(*, proxy: str = "px_a", order: int = 1) -> RunningWorker:
    return RunningWorker(session_id="a", run_order=order, proxy_id=proxy, handle="pid 1", started_at=1)


@pytest.mark.parametrize(
    ("wanted", "running", "step"),
    [
        (session(), None, Step.START),
        (session(), worker(), Step.NOTHING),
        (session(order=2), worker(order=1), Step.REPLACE),
        (session(proxy="px_b"), worker(proxy="px_a"), Step.REPLACE),
        (session(Wanted.STOPPED), worker(), Step.STOP),
        (session(Wanted.STOPPED), None, Step.NOTHING),
        (session(Wanted.DELETED), worker(), Step.DELETE),
        (session(Wanted.DELETED), None, Step.DELETE),
        (session(waiting=True), worker(), Step.STOP),
        (session(waiting=True), None, Step.NOTHING),
        (session(proxy=""), worker(), Step.STOP),
        (session(proxy=""), None, Step.NOTHING),
    ],
)
def test_the_next_step(wanted: Session, running: RunningWorker | None, step: Step) -> None:
    assert next_step(wanted, running) is step


def test_no_worker_is_ever_started_without_a_proxy_or_against_the_operators_will() -> None:
    for wanted, proxy, waiting, running in itertools.product(Wanted, ("", "px_a"), (True, False), (None, worker())):
        step = next_step(session(wanted, proxy=proxy, waiting=waiting), running)
        if step in {Step.START, Step.REPLACE}:
            assert (wanted, proxy, waiting) == (Wanted.RUNNING, "px_a", False)


def test_the_pause_before_a_restart_grows_to_a_minute() -> None:
    assert [pause_before_restart_s(n) for n in (0, 1, 2, 3, 4, 8, 9, 500)] == [0, 0, 1, 2, 4, 60, 60, 60]
