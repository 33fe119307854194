"""Which running worker needs a restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wa_orchestrator.model.session import Session, Status, Wanted, Watched
from wa_orchestrator.watchdog.policy import DEAF_AFTER_MS, RESCUE_AGAIN_MS, needs_restart

NOW = 1_700_000_000_000
TIMEOUT = 180_000
OLD = NOW - 10 * TIMEOUT


def watched(**fields: object) -> Watched:
    session = Session(
        session_id="worker_1",
        status=Status.CONNECTED,
        wanted=Wanted.RUNNING,
        created_at=OLD,
        started_at=OLD,
        last_ping=NOW - 1000,
    )
    base = Watched(session=session, last_received_at=NOW - 1000)
    in_session = {k: v for k, v in fields.items() if hasattr(session, k)}
    others = {k: v for k, v in fields.items() if k not in in_session}
    return replace(base, session=replace(session, **in_session), **others)  # type: ignore[arg-type]


def decide(**fields: object) -> str | None:
    return needs_restart(watched(**fields), now_ms=NOW, ping_timeout_ms=TIMEOUT)


def test_a_worker_that_pings_is_left_alone() -> None:
    assert decide() is None


def test_a_silent_worker_is_restarted() -> None:
    assert decide(last_ping=NOW - TIMEOUT) == "NO_PING"


def test_a_worker_that_never_pinged_is_restarted_after_a_full_time_out() -> None:
    assert decide(last_ping=None) == "NO_PING"
    assert decide(last_ping=None, started_at=NOW - TIMEOUT + 1) is None


def test_a_ping_of_an_earlier_run_does_not_count_against_a_new_one() -> None:
    assert decide(last_ping=NOW - 5 * TIMEOUT, started_at=NOW - 1000) is None


def test_connected_but_deaf_is_restarted_once() -> None:
    deaf: dict[str, object] = {"unacked": 5, "last_received_at": NOW - DEAF_AFTER_MS}
    assert decide(**deaf) == "CONNECTED_BUT_DEAF"
    assert decide(**deaf, rescued_at=NOW - 1000) is None
    assert decide(**deaf, rescued_at=NOW - RESCUE_AGAIN_MS) == "CONNECTED_BUT_DEAF"


@pytest.mark.parametrize("fields", [{"unacked": 2}, {"unacked": 5, "last_received_at": NOW - 1000}])
def test_a_quiet_or_busy_worker_is_not_deaf(fields: dict[str, object]) -> None:
    assert decide(**{"last_received_at": NOW - DEAF_AFTER_MS, **fields}) is None


def test_only_a_connected_session_can_be_deaf() -> None:
    assert decide(unacked=5, last_received_at=NOW - DEAF_AFTER_MS, status=Status.RECONNECTING) is None
