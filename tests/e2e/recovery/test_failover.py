"""A system that heals itself: dead proxies, silent workers, nothing free."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from support.system import System, wait_for

PHONES = [f"97254{n:07}" for n in range(8)]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    system = System(
        tmp_path_factory.mktemp("failover"), SIMULATOR_PROXIES=3, PROXY_TIMEOUT_MS=2000, MONITOR_INTERVAL_MS=1000,
        WATCHDOG_INTERVAL_MS=1000, PING_TIMEOUT_MS=5000, PING_INTERVAL_MS=500,
        WORKER_ENV="RECONNECT_BASE_MS=100 RECONNECT_MAX_MS=500",
    )  # fmt: skip
    with system:
        yield system


@pytest.fixture
def system(shared: System) -> Iterator[System]:
    yield shared
    shared.clear()


def _all_connected(system: System, sessions: list[str], *, away_from: set[str]) -> bool:
    found = [system.session(s) for s in sessions]
    return all(s["status"] == "connected" and s["proxy"]["id"] not in away_from for s in found)


def _loads(system: System) -> Counter[str]:
    return Counter({p["id"]: p["slotsUsed"] for p in system.api.get("/api/v1/proxies")["proxies"]})


def test_four_sessions_of_a_dead_proxy_are_elsewhere_within_thirty_seconds(system: System) -> None:
    home = system.api.get("/api/v1/proxies")["proxies"][0]
    sessions = [system.connected(phone, proxy=home["id"]) for phone in PHONES[:4]]
    system.fault(proxyDown=home["port"])
    began = time.monotonic()
    wait_for(lambda: _all_connected(system, sessions, away_from={home["id"]}), what="failover of all four")
    assert time.monotonic() - began < 30
    assert max(_loads(system).values()) <= 4
    for phone, session_id in zip(PHONES, sessions, strict=False):
        assert len(system.events(session_id, "QR_CODE")) == 1, "no second scan"
        assert system.session(session_id)["phone"] == phone


def test_without_a_free_proxy_sessions_wait_and_go_on_when_one_returns(system: System) -> None:
    session_id = system.connected(PHONES[0])
    ports = [p["port"] for p in system.api.get("/api/v1/proxies")["proxies"]]
    for port in ports:
        system.fault(proxyDown=port)
    wait_for(
        lambda: system.session(session_id)["reason"] == "NO_PROXY_AVAILABLE", what="the session to wait", timeout_s=60
    )
    assert system.session(session_id)["status"] == "disconnected"
    for port in ports:
        system.fault(proxyUp=port)
    system.wait_status(session_id, "connected", timeout_s=60)


def test_a_worker_that_hangs_is_noticed_and_replaced(system: System) -> None:
    session_id = system.connected(PHONES[1])
    pid = system.worker_pid(session_id)
    os.kill(pid, signal.SIGSTOP)
    system.wait_new_worker(session_id, pid)
    system.wait_status(session_id, "connected")
    reasons = {e["data"].get("reason") for e in system.events(session_id, "session.status")}
    assert "NO_PING" in reasons
