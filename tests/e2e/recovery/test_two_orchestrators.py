"""Two orchestrators on one machine: one leads, the other serves and takes over when the leader is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.forwarder import Forwarder
from support.servers import running_server
from support.system import System, pid_in, wait_for


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[System, System]]:
    """Both on one store, one sessions folder and one run folder; the first has the simulator and leads."""
    forwarder = Forwarder()
    shared: dict[str, Any] = {
        "SESSIONS_DIR": tmp_path / "sessions",
        "RUN_DIR": tmp_path / "run",
        "API_KEY": "wa_invented-key-for-tests",
        "WEBHOOK_SECRET": "invented-secret-for-tests",
        "WORKER_URL": forwarder.url,
        "PROXY_TIMEOUT_MS": 2000,
        "WATCHDOG_INTERVAL_MS": 1000,
        "PING_TIMEOUT_MS": 4000,
        "PING_INTERVAL_MS": 500,
        "WORKER_ENV": "RECONNECT_BASE_MS=100 RECONNECT_MAX_MS=500",
    }
    with running_server("valkey", tmp_path / "valkey") as store:
        # the simulator outlives its orchestrator when that is killed
        first = System(tmp_path / "first", REDIS_URL=store.url, **shared).start()
        world = json.loads((first.data / "simulator" / "ready.json").read_text())
        second = System(
            tmp_path / "second", simulate=False, REDIS_URL=store.url, WA_WEBSOCKET_URL=world["websocketUrl"],
            WA_ROOT_PUBLIC_KEY=world["rootPublicKey"], WA_CA_FILE=world["caFile"],
            PROXY_CHECK_TARGET=world["websocketUrl"].split("://")[1].split("/")[0], **shared,
        ).start()  # fmt: skip
        forwarder.targets = [int(s.ready["url"].rsplit(":", 1)[1]) for s in (first, second)]
        second.simulator = first.simulator
        try:
            yield first, second
        finally:
            with second:
                for session in second.api.get("/api/sessions")["sessions"]:
                    second.api.call("DELETE", f"/api/sessions/{session['sessionId']}")
            with first:
                pass
            forwarder.close()


def _pid(tmp_path: Path, session_id: str) -> int:
    return pid_in(tmp_path / "run" / f"{session_id}.pid")


def test_the_other_takes_over_within_fifteen_seconds_without_touching_workers(
    pair: tuple[System, System], tmp_path: Path
) -> None:
    leader, other = pair
    sessions = [leader.connected("972500000001"), other.connected("972500000002")]
    hanging, healthy = (_pid(tmp_path, session_id) for session_id in sessions)
    leader.kill()
    killed_at = time.monotonic()

    # the watchdog goes on: a worker that hangs is found and replaced
    os.kill(hanging, signal.SIGSTOP)
    other.wait_status(sessions[0], "unhealthy")
    assert time.monotonic() - killed_at < 15, "the watchdog of the new leader was at work"
    wait_for(lambda: _pid(tmp_path, sessions[0]) not in {0, hanging}, what="a new worker")
    other.wait_status(sessions[0], "connected")
    assert _pid(tmp_path, sessions[1]) == healthy, "a healthy worker is not touched"

    # failover goes on
    proxy = other.session(sessions[1])["proxy"]
    other.fault(proxyDown=proxy["port"])
    wait_for(lambda: other.session(sessions[1])["proxy"]["id"] != proxy["id"], what="failover")
    other.wait_status(sessions[1], "connected")


def test_orders_given_to_the_one_that_does_not_lead_are_carried_out(pair: tuple[System, System]) -> None:
    _, other = pair
    session_id = other.connected("972500000003")
    other.api.post(f"/api/sessions/{session_id}/stop")
    assert other.session(session_id)["status"] == "stopped"
    other.api.post(f"/api/sessions/{session_id}/start")
    other.wait_status(session_id, "connected")
    other.api.call("DELETE", f"/api/sessions/{session_id}")
    assert all(s["sessionId"] != session_id for s in other.api.get("/api/sessions")["sessions"])
