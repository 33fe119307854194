"""The store goes away and comes back: clear 503s meanwhile, and everything goes on by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.control_plane import ControlPlane, control_plane, proxy_url
from support.registry import assert_sound
from support.servers import StoreServer, server_binary
from support.waiting import wait_until
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.errors import SettingsError, StoreFull, StoreUnavailable
from wa_orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.store import Store, connection, keys


@pytest.fixture
async def own_store(tmp_path: Path) -> AsyncIterator[StoreServer]:
    """A store of its own, which the test may kill."""
    binary = server_binary("valkey")
    assert binary
    server = StoreServer(binary, tmp_path / "store")
    server.start()
    yield server
    server.stop()


async def test_without_the_store_calls_are_refused_and_it_comes_back_by_itself(
    own_store: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wa_orchestrator.store.sessions._RETRY_PAUSES_S", (0.05,))
    async with control_plane(tmp_path / "data", REDIS_URL=own_store.url) as plane:
        await plane.add_proxies(1)
        session = await plane.provision()
        own_store.kill()
        for method, path in [
            ("GET", "/api/sessions"),
            ("GET", f"/api/sessions/{session}"),
            ("POST", "/api/sessions/provision"),
            ("POST", f"/api/sessions/{session}/restart"),
            ("DELETE", f"/api/sessions/{session}"),
            ("GET", "/api/v1/proxies"),
        ]:
            answer = await plane.call(method, path)
            assert (answer.status, answer.code) == (503, "STORE_UNAVAILABLE"), (method, path, answer.body)
            assert answer.headers["retry-after"]
        assert (await plane.event(session, "PING")).status == 503, "a worker keeps its event and tries again"
        health = await plane.call("GET", "/health", key=None)
        assert (health.status, health.json["status"], health.json["store"]) == (200, "degraded", "away")
        assert (await plane.call("GET", "/ready", key=None)).status == 503
        own_store.start()

        async def ready() -> bool:
            return (await plane.call("GET", "/ready", key=None)).status == 200

        await wait_until(ready)
        await _until_listed(plane, session)
        assert await plane.provision() == "worker_2"
        await assert_sound(plane.store)


async def test_a_provisioning_outlives_a_short_absence_of_the_store(own_store: StoreServer, tmp_path: Path) -> None:
    async with control_plane(tmp_path / "data", REDIS_URL=own_store.url) as plane:
        (proxy_id,) = await plane.add_proxies(1)
        own_store.kill()
        asked = [asyncio.create_task(plane.call("POST", "/api/sessions/provision", {})) for _ in range(6)]
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_store.start)
        answers = await asyncio.gather(*asked)
        assert sorted(a.status for a in answers) == [201] * 4 + [503] * 2
        assert {a.code for a in answers if a.status == 503} == {"NO_PROXY_AVAILABLE"}
        assert (await plane.good("GET", f"/api/v1/proxies/{proxy_id}"))["slotsUsed"] == 4
        await assert_sound(plane.store)


async def test_who_is_told_of_a_failure_has_no_session(own_store: StoreServer, tmp_path: Path) -> None:
    """The store dies in the very moment in which a session was completed."""
    async with control_plane(tmp_path / "data", REDIS_URL=own_store.url) as plane:
        await plane.add_proxies(1)
        confirm = plane.store.sessions.confirm

        async def confirm_and_die(session_id: str) -> None:
            await confirm(session_id)
            own_store.kill()

        plane.store.sessions.confirm = confirm_and_die
        answer = await plane.call("POST", "/api/sessions/provision", {"sessionId": "shop"})
        assert (answer.status, answer.json["proxy"]["port"]) == (201, 1), "it was kept, so it must be told"
        own_store.start()
        await _until_listed(plane, "shop")


async def test_a_slow_store_makes_calls_wait_instead_of_failing(own_store: StoreServer) -> None:
    store = Store(own_store.url, SystemClock())

    async def ask(number: int) -> object:
        await asyncio.sleep(number * 0.005)  # each in a turn of its own, so that each wants a connection
        return await store.connection.call("INCR", "x")

    try:
        pause = asyncio.create_task(store.connection.call("CLIENT", "PAUSE", 800, "ALL"))
        await asyncio.sleep(0.05)
        answers = await asyncio.gather(*(ask(n) for n in range(150)))
        await pause
        assert sorted(int(str(a)) for a in answers) == list(range(1, 151))
    finally:
        await store.close()


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "redis://:wrong@127.0.0.1:{port}/0"])
async def test_a_store_that_does_not_answer_stops_the_start_with_a_sentence(
    own_store: StoreServer, tmp_path: Path, url: str
) -> None:
    own_store.require_password("right")
    with pytest.raises(SettingsError, match="Check REDIS_URL") as caught:
        async with control_plane(tmp_path / "data", REDIS_URL=url.format(port=own_store.port)):
            pass
    assert "wrong" not in str(caught.value)


async def test_workers_go_on_while_the_store_is_away(own_store: StoreServer, tmp_path: Path) -> None:
    async with control_plane(tmp_path / "data", REDIS_URL=own_store.url) as plane:
        await plane.add_proxies(1)
        session = await plane.provision()
        pid = await plane.pid(session)
        own_store.kill()
        await asyncio.sleep(0.6)  # three rounds of the reconciler
        assert await plane.pid(session) == pid
        own_store.start()

        async def ready() -> bool:
            return (await plane.call("GET", "/ready", key=None)).status == 200

        await wait_until(ready)
        assert await plane.pid(session) == pid
        await _until_listed(plane, session)


async def _until_listed(plane: ControlPlane, session: str) -> None:
    async def listed() -> bool:
        answer = await plane.call("GET", "/api/sessions")
        return answer.status == 200 and [s["sessionId"] for s in answer.json["sessions"]] == [session]

    await wait_until(listed)


async def test_a_store_without_memory_takes_nothing_new_and_leaves_nothing_half_done(
    own_store: StoreServer, tmp_path: Path
) -> None:
    async with control_plane(tmp_path / "data", REDIS_URL=own_store.url) as plane:
        await plane.add_proxies(1)
        session = await plane.provision()
        call = plane.store.connection.call
        keys_before = await call("DBSIZE")
        await call("CONFIG", "SET", "maxmemory", "1")
        for path, body in [
            ("/api/v1/send", {"to": "972520000001", "message": "hello", "sessionId": session}),
            ("/api/v1/send", {"to": "972520000001", "message": "hello"}),
            ("/api/sessions/provision", {}),
            ("/api/v1/proxies", {"proxy": proxy_url(7)}),
        ]:
            answer = await plane.call("POST", path, body)
            assert (answer.status, answer.code) == (503, "STORE_FULL"), (path, answer.body)
            assert answer.headers["retry-after"]
        assert (await plane.event(session, "PING")).status == 503, "a worker keeps its event and tries again"
        assert (await plane.good("GET", f"/api/sessions/{session}"))["sessionId"] == session, "reading goes on"
        assert await call("DBSIZE") <= keys_before
        await call("CONFIG", "SET", "maxmemory", "0")
        assert (await plane.event(session, "PING")).status == 200
        sent = {"to": "972520000001", "message": "hello", "sessionId": session}
        assert (await plane.call("POST", "/api/v1/send", sent)).status == 202
        await assert_sound(plane.store)


async def test_proxies_are_not_probed_again_and_again_when_the_result_cannot_be_kept(
    own_store: StoreServer, tmp_path: Path
) -> None:
    async with control_plane(tmp_path / "data", REDIS_URL=own_store.url) as plane:
        await plane.add_proxies(3)
        rooms = plane.server.rooms
        probed: list[str] = []

        class Pool:
            async def probe(self, proxy_id: str, *, bad_after: int) -> None:
                probed.append(proxy_id)
                await rooms.store.connection.call("SET", "result", "x")

        pool: Any = Pool()
        health = ProxyHealth(store=rooms.store, pool=pool, settings=rooms.settings, clock=rooms.clock)
        for proxy in await rooms.store.proxies.all():
            await rooms.store.connection.call("ZADD", keys.PROXIES_CHECKS(), 0, proxy.proxy_id)
        await rooms.store.connection.call("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreFull):
            await health.run_once()
        await health.run_once()
        assert len(probed) == 3


async def test_nobody_waits_longer_for_a_store_that_hangs_because_others_wait_too(
    own_store: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_ANSWER_S", 1.5)
    monkeypatch.setattr(connection, "_LEAST_S", 0.1)
    store = Store(own_store.url, SystemClock())
    waited: list[float] = []

    async def ask(number: int) -> None:
        await asyncio.sleep(number * 0.01)  # each in a turn of its own: the first take all lines, the others queue
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            await store.ping()
        waited.append(time.monotonic() - began)

    try:
        with own_store.hanging():
            await asyncio.gather(*(ask(n) for n in range(60)))
        assert len(waited) == 60
        assert max(waited) < 2.5, max(waited)
        await store.ping()
    finally:
        await store.close()
