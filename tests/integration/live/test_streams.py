"""Live events over WebSocket and SSE: in order, without gaps, for those with the key, and quick to end."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.control_plane import API_KEY, ControlPlane, control_plane
from support.servers import StoreServer, server_binary
from support.waiting import wait_until
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.events.live import LiveEvents
from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.store import Store

PATIENCE_S = 10
Next = Callable[[], Awaitable[dict[str, Any]]]


@asynccontextmanager
async def websocket(plane: ControlPlane, query: str = "") -> AsyncIterator[Next]:
    headers = {"X-Api-Key": API_KEY}
    async with plane.http.ws_connect(f"{plane.url}/ws{query}", headers=headers) as socket:
        assert json.loads(await socket.receive_str()) == {"type": "hello"}

        async def following() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(await asyncio.wait_for(socket.receive_str(), PATIENCE_S))
            return found

        yield following


@asynccontextmanager
async def sse(plane: ControlPlane, query: str = "", **headers: str) -> AsyncIterator[Next]:
    sent = {"X-Api-Key": API_KEY, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with plane.http.get(f"{plane.url}/api/v1/events/stream{query}", headers=sent) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert await answer.content.readline() == b": connected\n"

        async def following() -> dict[str, Any]:
            number = 0
            while True:
                line = (await asyncio.wait_for(answer.content.readline(), PATIENCE_S)).decode()
                if not line:
                    raise EOFError
                if line.startswith("id: "):
                    number = int(line[4:])
                if line.startswith("data: "):
                    found: dict[str, Any] = json.loads(line[6:])
                    assert found["number"] == number, "a browser resumes by the id"
                    return found

        yield following


@pytest.fixture(params=[websocket, sse], ids=["websocket", "sse"])
def stream(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_events_arrive_in_order_without_gaps(plane: ControlPlane, stream: Any) -> None:
    async with stream(plane) as following:
        await plane.add_proxies(1)
        session = await plane.provision()
        await plane.event(session, "QR_CODE", {"qr": "2@secret"})
        got = [await following() for _ in range(4)]
    assert [e["type"] for e in got] == ["proxy.added", "session.created", "QR_CODE", "session.status"]
    numbers = [e["number"] for e in got]
    assert numbers == list(range(numbers[0], numbers[0] + 4))
    assert [e["sessionId"] for e in got] == [None, session, session, session]
    assert "2@secret" not in str(got)


async def test_a_listener_resumes_after_its_last_number(plane: ControlPlane, stream: Any) -> None:
    await plane.add_proxies(3)
    last = await plane.store.journal.last_number()
    async with stream(plane, f"?after={last - 2}") as following:
        assert [(await following())["number"] for _ in range(2)] == [last - 1, last]
        await plane.provision()
        assert (await following())["number"] == last + 1, "what is new follows what was missed"


async def test_a_browser_resumes_by_the_last_event_id(plane: ControlPlane) -> None:
    await plane.add_proxies(3)
    last = await plane.store.journal.last_number()
    async with sse(plane, "?after=0", Last_Event_ID=str(last - 1)) as following:
        assert (await following())["number"] == last
    for odd in ("x", "²", "-1", "9" * 40):
        async with sse(plane, f"?after={last - 1}", Last_Event_ID=odd) as following:
            assert (await following())["number"] == last


async def test_one_session_can_be_followed_alone(plane: ControlPlane, stream: Any) -> None:
    await plane.add_proxies(1)
    await plane.provision(sessionId="a")
    async with stream(plane, "?after=0&sessionId=b") as following:
        await plane.provision(sessionId="b")
        await plane.event("a", "QR_CODE", {"qr": "2@a"})
        await plane.event("b", "QR_CODE", {"qr": "2@b"})
        got = [await following() for _ in range(3)]
    assert {e["sessionId"] for e in got} == {"b"}


async def test_a_listener_misses_nothing_though_the_store_was_away(tmp_path: Path, stream: Any) -> None:
    binary = server_binary("valkey")
    assert binary
    store = StoreServer(binary, tmp_path / "store")
    store.start()
    try:
        async with control_plane(tmp_path / "data", REDIS_URL=store.url) as plane, stream(plane) as following:
            await plane.add_proxies(1)
            first = (await following())["number"]
            store.kill()
            await asyncio.sleep(0.1)
            store.start()

            async def answers() -> bool:
                return (await plane.call("POST", "/api/sessions/provision", {})).status == 201

            # made at once, before the reader of the journal is back
            await wait_until(answers)
            assert (await following())["number"] == first + 1
    finally:
        store.stop()


async def test_the_first_event_of_all_is_not_missed_though_the_store_was_away(tmp_path: Path) -> None:
    """An empty journal is a place in it, too: the reader goes on from there."""
    binary = server_binary("valkey")
    assert binary
    server = StoreServer(binary, tmp_path / "store")
    server.start()
    store, stop = Store(server.url, SystemClock()), asyncio.Event()
    live = LiveEvents(store)
    running = asyncio.create_task(live.run(stop))
    try:
        with live.listen() as listener:
            await asyncio.sleep(0.2)  # it waits in the empty journal
            server.kill()
            await asyncio.sleep(0.1)
            server.start()
            await store.proxies.add(ProxyAddress("proxy.example", 1080))
            entry = await asyncio.wait_for(listener.queue.get(), PATIENCE_S)
            assert entry
            assert (entry.number, entry.type) == (1, "proxy.added")
    finally:
        stop.set()
        await running
        await store.close()
        server.stop()


async def test_what_happens_right_after_the_greeting_is_told(plane: ControlPlane, stream: Any) -> None:
    """Who was told it is connected misses nothing, however soon the next event comes."""
    for number in range(20):
        async with stream(plane) as following:
            await plane.store.proxies.add(ProxyAddress("proxy.example", 1080 + number))
            assert (await following())["type"] == "proxy.added"


async def test_what_happens_before_the_reader_found_its_place_is_told(valkey_store: Store) -> None:
    store, stop = valkey_store, asyncio.Event()
    live = LiveEvents(store)
    following = live.follow(after=await live.place(None))
    reading = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0.05)
    await store.proxies.add(ProxyAddress("proxy.example", 1080))
    running = asyncio.create_task(live.run(stop))
    try:
        entry = await asyncio.wait_for(reading, PATIENCE_S)
        assert entry
        assert entry.type == "proxy.added"
    finally:
        await following.aclose()  # type: ignore[attr-defined]
        stop.set()
        await running


# who may listen -----------------------------------------------------------------------------------------------------
_STRANGERS: list[tuple[dict[str, str], str | None]] = [
    ({"X-Api-Key": "wrong"}, None),
    ({"Authorization": "Bearer wrong"}, None),
    ({}, '{"apiKey":"wrong"}'),
    ({}, '{"apiKey":5}'),
    ({}, "{}"),
    ({}, "[]"),
    ({}, "nonsense"),
]


async def test_without_the_key_a_websocket_is_closed(plane: ControlPlane) -> None:
    for headers, first in _STRANGERS:
        async with plane.http.ws_connect(f"{plane.url}/ws", headers=headers) as socket:
            if first is not None:
                await socket.send_str(first)
            got = await asyncio.wait_for(socket.receive(), PATIENCE_S)
            assert (got.type, got.data, got.extra) == (aiohttp.WSMsgType.CLOSE, 1008, "API key needed"), first


async def test_a_browser_gives_the_key_in_its_first_message(plane: ControlPlane) -> None:
    await plane.add_proxies(2)
    async with plane.http.ws_connect(f"{plane.url}/ws") as socket:
        await socket.send_str(json.dumps({"apiKey": API_KEY, "after": 1}))
        assert json.loads(await socket.receive_str()) == {"type": "hello"}
        assert json.loads(await asyncio.wait_for(socket.receive_str(), PATIENCE_S))["number"] == 2


async def test_what_a_listener_says_is_not_heeded(plane: ControlPlane) -> None:
    headers = {"X-Api-Key": API_KEY}
    async with plane.http.ws_connect(f"{plane.url}/ws", headers=headers) as socket:
        await socket.receive_str()
        await socket.send_bytes(b"\0\1")
        await socket.send_str("hello?")
        await plane.add_proxies(1)
        assert json.loads(await asyncio.wait_for(socket.receive_str(), PATIENCE_S))["type"] == "proxy.added"


# slow listeners, the end ------------------------------------------------------------------------------------------
async def test_a_listener_that_is_too_slow_is_cut_off_and_can_resume(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wa_orchestrator.events.live._LONGEST_QUEUE", 5)
    live = plane.server.rooms.live
    got: list[int] = []
    following = live.follow(after=await live.place(None))
    reading = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0.1)
    await plane.add_proxies(1)
    first = await asyncio.wait_for(reading, PATIENCE_S)
    assert first
    got.append(first.number)
    # it takes nothing more while far more happens than its queue holds
    session = await plane.provision()
    for number in range(30):
        await plane.event(session, "QR_CODE", {"qr": f"2@{number}"})
    last = await plane.store.journal.last_number()

    async def cut() -> bool:
        return any(listener.lost for listener in live._listeners)

    await wait_until(cut)
    rest = [entry async for entry in following]
    assert len(rest) < last - got[0], "it was not cut off"
    again = live.follow(after=got[0])
    while got[-1] < last:
        entry = await asyncio.wait_for(anext(again), PATIENCE_S)
        assert entry
        got.append(entry.number)
    await again.aclose()  # type: ignore[attr-defined]
    assert got == list(range(got[0], last + 1)), "after resuming nothing is missing"


async def test_a_websocket_that_fell_behind_is_told_to_resume(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wa_orchestrator.events.live._LONGEST_QUEUE", 1)
    headers = {"X-Api-Key": API_KEY}
    async with plane.http.ws_connect(f"{plane.url}/ws", headers=headers) as socket:
        await socket.receive_str()
        (listener,) = plane.server.rooms.live._listeners
        listener.lost = True
        listener.offer(None)
        while (got := await asyncio.wait_for(socket.receive(), PATIENCE_S)).type is aiohttp.WSMsgType.TEXT:
            pass
        assert (got.type, got.data) == (aiohttp.WSMsgType.CLOSE, 1013)


async def test_the_server_stops_quickly_though_streams_are_open(valkey: StoreServer, tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as http:
        headers = {"X-Api-Key": API_KEY}
        async with control_plane(tmp_path / "data", REDIS_URL=valkey.url) as plane:
            socket = await http.ws_connect(f"{plane.url}/ws", headers=headers)
            answer = await http.get(f"{plane.url}/api/v1/events/stream", headers=headers)
            assert await answer.content.readline() == b": connected\n"
            await socket.receive_str()
            began = time.monotonic()
        assert time.monotonic() - began < 4  # for them alone it would wait 5 s
        assert (await socket.receive()).type in {aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED}
        await asyncio.wait_for(answer.content.read(), PATIENCE_S)
        await socket.close()
        answer.close()


async def test_a_listener_that_left_is_forgotten(plane: ControlPlane, stream: Any) -> None:
    live = plane.server.rooms.live
    async with stream(plane):
        assert len(live._listeners) == 1

    async def forgotten() -> bool:
        await plane.event("nobody", "PING")
        return not live._listeners

    if stream is sse:  # noticed when something is sent
        await plane.add_proxies(2)
    await wait_until(forgotten)
