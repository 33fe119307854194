"""A worker's long poll: cheap while idle, quick when woken, and nothing is handed to one who left."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from support.control_plane import signed_headers
from support.message_plane import MessagePlane, message_plane
from support.servers import StoreServer
from support.waiting import wait_until
from wa_orchestrator.worker_api.wake import Wake


@pytest.fixture
async def plane(tmp_path: Path, valkey: StoreServer) -> AsyncIterator[MessagePlane]:
    async with message_plane(tmp_path, valkey) as found:
        yield found


def waiters(plane: MessagePlane) -> int:
    wake: Wake = plane.server.rooms.claims._wake
    return sum(len(events) for events in wake._waiting.values())


async def open_claim(plane: MessagePlane, session: str) -> asyncio.StreamWriter:
    """A claim on a connection of its own, to be cut."""
    host, port = plane.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    raw = json.dumps({"max": 5, "waitMs": 30_000}).encode()
    headers = {**signed_headers(session, raw), "Host": "x", "Content-Length": str(len(raw))}
    head = f"POST /api/worker/sessions/{session}/outbox/claim HTTP/1.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(head.encode() + b"\r\n" + raw)
    await writer.drain()
    return writer


async def test_an_idle_claim_returns_when_its_time_is_over(plane: MessagePlane) -> None:
    session = await plane.connected()
    began = time.monotonic()
    assert await plane.claim(session, wait_ms=300) == []
    assert 0.29 < time.monotonic() - began < 5.0
    assert waiters(plane) == 0


async def test_a_send_wakes_a_waiting_claim_at_once(plane: MessagePlane) -> None:
    session = await plane.connected()
    lateness = []
    for number in range(20):
        waiting = asyncio.create_task(plane.claim(session, wait_ms=5000))
        await wait_until(lambda: waiters(plane) == 1)
        began = time.monotonic()
        await plane.send(sessionId=session, to=f"97252{number:07}")
        (message,) = await waiting
        lateness.append(time.monotonic() - began)
        await plane.ack(session, message)
    # the whole way: accept, release, wake, claim. On a busy machine many are late, but not all; a loop that only looks
    # twice a second would bring a quarter of them within 125 ms, not 50
    assert statistics.quantiles(lateness, n=4)[0] < 0.05


async def test_one_who_hangs_up_frees_the_waiter_and_loses_no_message(plane: MessagePlane) -> None:
    session = await plane.connected()
    writer = await open_claim(plane, session)
    await wait_until(lambda: waiters(plane) == 1)
    writer.close()
    await writer.wait_closed()
    await wait_until(lambda: waiters(plane) == 0)
    sent = await plane.send(sessionId=session)
    assert [m["messageId"] for m in await plane.claim(session)] == [sent["messageId"]]


async def test_one_who_is_woken_and_gone_in_the_same_moment_gets_nothing(plane: MessagePlane) -> None:
    session = await plane.connected()
    for number in range(5):
        writer = await open_claim(plane, session)
        await wait_until(lambda: waiters(plane) == 1)
        writer.transport.abort()
        sent = await plane.send(sessionId=session, to=f"97252{number:07}")
        await wait_until(lambda: waiters(plane) == 0)
        (message,) = await plane.claim(session)
        assert message["messageId"] == sent["messageId"]
        await plane.ack(session, message)


async def test_five_hundred_waiting_claims_share_the_store_connections(
    plane: MessagePlane, valkey: StoreServer
) -> None:
    session = await plane.connected()

    def connections() -> int:
        with redis.Redis(port=valkey.port) as client:
            return len(client.client_list())

    before = connections()
    waiting = [asyncio.create_task(plane.claim(session, wait_ms=20_000)) for _ in range(500)]
    await wait_until(lambda: waiters(plane) == 500, timeout_s=15)
    # looking once took a few; waiting takes none
    assert connections() - before <= 32
    sent = await plane.send(sessionId=session)
    found = [message["messageId"] for messages in await asyncio.gather(*waiting) for message in messages]
    assert found == [sent["messageId"]]
    assert waiters(plane) == 0


async def test_a_stranger_gets_nothing(plane: MessagePlane) -> None:
    session = await plane.connected()
    await plane.send(sessionId=session)
    body = {"max": 5, "waitMs": 0}
    assert (await plane.outbox(session, "claim", body, signed_for="worker_9")).code == "INVALID_SIGNATURE"
    assert (await plane.outbox("nobody", "claim", body)).status == 404
    assert len(await plane.claim(session)) == 1
