"""`wa-orchestrator up` as a process: hundreds of provisions at once, and kills at the worst moment."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.control_plane import SILENT_WORKER, proxy_url
from support.leftovers import end_all_below
from support.system import System, wait_for
from wa_orchestrator.processes.identity import is_alive, read_identity

PROXIES, CAP = 10, 4


def pid_of(file: Path) -> int | None:
    identity = read_identity(file)
    return identity.pid if identity and is_alive(identity) else None


def worker_pids(system: System) -> dict[str, int]:
    """Running workers by session, as the run folder and the kernel know them."""
    found = {file.stem: pid_of(file) for file in (system.data / "run").glob("*.pid")}
    return {session: pid for session, pid in found.items() if pid is not None}


def store_pid(system: System) -> int | None:
    return pid_of(system.data / "store" / "valkey.pid")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    proxies = {f"PROXY_URL_{n + 1}": proxy_url(n) for n in range(PROXIES)}
    made = System(
        tmp_path, simulate=False, WORKER_COMMAND=SILENT_WORKER, START_BUDGET=20, PROVISIONING_INTERVAL_MS=200,
        PROXY_BAD_AFTER=100, PROXY_TIMEOUT_MS=200, PROXY_CHECK_TARGET="127.0.0.1:1", **proxies,
    )  # fmt: skip
    made.start()
    try:
        yield made
    finally:
        try:
            made.stop()
        finally:
            asyncio.run(end_all_below(made.data))


async def provision_many(system: System, count: int) -> list[tuple[int, str]]:
    """(status, error code or session id) of that many calls at once; (0, …) when the server went away."""
    headers = {"X-Api-Key": system.ready["apiKey"]}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as http:

        async def one() -> tuple[int, str]:
            try:
                async with http.post(f"{system.api.base}/api/sessions/provision", json={}) as answer:
                    body = await answer.json()
                    return answer.status, body.get("sessionId") or body["error"]["code"]
            except aiohttp.ClientError as error:
                return 0, type(error).__name__

        return list(await asyncio.gather(*(one() for _ in range(count))))


def sessions(system: System) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = system.api.get("/api/sessions?limit=1000")["sessions"]
    return found


def proxies(system: System) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = system.api.get("/api/v1/proxies")["proxies"]
    return found


def assert_complete(system: System) -> None:
    """Every session has its worker and its slot, every worker and slot has its session."""
    listed = {s["sessionId"]: s["proxy"]["id"] for s in sessions(system)}
    slots = {session: p["id"] for p in proxies(system) for session in p["sessions"]}
    assert slots == listed
    assert set(worker_pids(system)) == set(listed)
    assert all(p["slotsUsed"] == len(p["sessions"]) <= CAP for p in proxies(system))


def until_complete(system: System) -> None:
    def look() -> bool:
        try:
            assert_complete(system)
        except AssertionError:
            return False
        return True

    wait_for(look, what="every session to be complete or gone")


async def delete_all(system: System) -> None:
    headers = {"X-Api-Key": system.ready["apiKey"]}
    async with aiohttp.ClientSession(headers=headers) as http:

        async def one(session_id: str) -> int:
            async with http.delete(f"{system.api.base}/api/sessions/{session_id}") as answer:
                return answer.status

        assert set(await asyncio.gather(*(one(s["sessionId"]) for s in sessions(system)))) <= {200}


def assert_all_free(system: System) -> None:
    assert sessions(system) == []
    assert [p["slotsUsed"] for p in proxies(system)] == [0] * PROXIES
    assert worker_pids(system) == {}


def test_two_hundred_provisions_at_once_fill_forty_slots_and_deleting_frees_them_all(system: System) -> None:
    answers = Counter(asyncio.run(_statuses(system, 200)))
    assert answers == {(201, ""): PROXIES * CAP, (503, "NO_PROXY_AVAILABLE"): 200 - PROXIES * CAP}
    assert_complete(system)
    asyncio.run(delete_all(system))
    assert_all_free(system)
    workers_and_store = [store_pid(system)]
    system.provision()
    workers_and_store += worker_pids(system).values()
    assert None not in workers_and_store
    system.stop()
    for pid in workers_and_store:
        assert not Path(f"/proc/{pid}").exists(), "SIGTERM stops everything it started"
    assert not (system.data / "server.json").exists()
    system.start()
    until_complete(system)
    assert len(sessions(system)) == 1, "what was wanted before the stop runs again"


async def _statuses(system: System, count: int) -> list[tuple[int, str]]:
    return [(status, "" if status == 201 else code) for status, code in await provision_many(system, count)]


def test_no_slot_leaks_when_the_store_is_killed_in_the_middle(system: System) -> None:
    async def provisions_and_a_kill() -> list[tuple[int, str]]:
        calls = asyncio.create_task(provision_many(system, 200))
        while len(worker_pids(system)) < 5:
            await asyncio.sleep(0.005)
        pid = store_pid(system)
        assert pid
        os.kill(pid, signal.SIGKILL)
        return await calls

    answers = asyncio.run(provisions_and_a_kill())
    codes = Counter(code for status, code in answers if status != 201)
    assert set(codes) <= {"NO_PROXY_AVAILABLE", "STORE_UNAVAILABLE"}, codes
    wait_for(lambda: store_pid(system), what="the store to be started again")
    until_complete(system)
    made = {code for status, code in answers if status == 201}
    assert made == {s["sessionId"] for s in sessions(system)}, "who was told of a session has it, who was not has none"
    asyncio.run(delete_all(system))
    assert_all_free(system)


def test_after_a_kill_of_the_control_plane_every_session_is_complete_or_gone(system: System) -> None:
    async def provisions_and_a_kill() -> list[tuple[int, str]]:
        calls = asyncio.create_task(provision_many(system, 50))
        while len(worker_pids(system)) < 8:
            await asyncio.sleep(0.005)
        system.kill()
        return await calls

    before_store = store_pid(system)
    answers = asyncio.run(provisions_and_a_kill())
    assert (0, "ServerDisconnectedError") in answers, "the kill came too late to matter"
    told = {code for status, code in answers if status == 201}
    left_running = worker_pids(system)
    assert store_pid(system) == before_store, "the store outlives the control plane"
    system.start()
    assert store_pid(system) == before_store, "and is found again"
    until_complete(system)
    now = worker_pids(system)
    assert told <= set(now), "a session that somebody was told of is lost"
    for session in told:
        assert now[session] == left_running[session], "a running worker was touched"
    asyncio.run(delete_all(system))
    assert_all_free(system)
    answers = asyncio.run(_statuses(system, 45))
    assert Counter(answers)[201, ""] == PROXIES * CAP, "no slot was lost"
