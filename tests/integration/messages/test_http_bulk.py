"""Many messages in one request: results in order, memory flat, resumable after a cut."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.control_plane import API_KEY
from support.message_plane import MessagePlane, message_plane
from support.servers import StoreServer
from wa_orchestrator.store import keys

MANY = 10_000


@pytest.fixture
async def plane(tmp_path: Path, valkey: StoreServer) -> AsyncIterator[MessagePlane]:
    async with message_plane(tmp_path, valkey) as found:
        yield found


def line(number: int, text: str = "hello", **more: Any) -> bytes:
    body = {"to": f"97252{number:07}", "text": text, "idempotencyKey": f"item-{number}", **more}
    return json.dumps(body).encode() + b"\n"


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def test_ten_thousand_lines_are_accepted_in_order_with_flat_memory(plane: MessagePlane) -> None:
    text = "x" * 3000

    async def lines() -> AsyncIterator[bytes]:
        for number in range(MANY):
            yield line(number, text)

    headers = {"X-Api-Key": API_KEY, "Content-Type": "application/x-ndjson"}
    began, before, most = time.monotonic(), resident_bytes(), 0
    expected = 0
    async with plane.http.post(f"{plane.url}/api/v1/send/bulk", data=lines(), headers=headers) as got:
        assert got.status == 202
        async for raw in got.content:
            result = json.loads(raw)
            assert (result["index"], result["queued"], result["replayed"]) == (expected, True, False)
            expected += 1
            if expected % 500 == 0:
                most = max(most, resident_bytes())
    assert expected == MANY
    assert time.monotonic() - began < 45
    assert most - before < 24 << 20, "the whole stream is 30 MB"
    assert await plane.store.connection.call("ZCARD", keys.MESSAGES_ALL()) == MANY


async def test_a_cut_stream_is_resumed_with_its_keys(plane: MessagePlane) -> None:
    host, port = plane.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (f"POST /api/v1/send/bulk HTTP/1.1\r\nHost: x\r\nX-Api-Key: {API_KEY}\r\n"
            "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n")  # fmt: skip
    writer.write(head.encode())
    for number in range(700):
        body = line(number)
        writer.write(f"{len(body):x}\r\n".encode() + body + b"\r\n")
    await writer.drain()
    seen = b""
    while b'"index":400' not in seen:
        seen += await asyncio.wait_for(reader.read(65_536), timeout=10)
    writer.close()
    await writer.wait_closed()

    async def lines() -> AsyncIterator[bytes]:
        for number in range(1000):
            yield line(number)

    results = await plane.bulk(lines())
    assert [r["index"] for r in results] == list(range(1000))
    assert all(r["queued"] for r in results)
    replayed = [r["index"] for r in results if r["replayed"]]
    assert replayed == list(range(len(replayed)))
    assert 400 < len(replayed) <= 700
    assert await plane.store.connection.call("ZCARD", keys.MESSAGES_ALL()) == 1000


async def test_each_item_of_an_array_has_its_own_result(plane: MessagePlane) -> None:
    items = [{"to": "972521111111", "text": "a"}, {"to": "nobody", "text": "a"}, {"to": "972521111111"}, 5,
             {"to": "972521111111", "text": "b", "sessionId": "nobody"}]  # fmt: skip
    found = await plane.bulk(items)  # type: ignore[arg-type]
    assert (found["accepted"], found["rejected"]) == (1, 4)
    codes = [r.get("error", {}).get("code") for r in found["results"]]
    assert codes == [None, "INVALID_RECIPIENT", "INVALID_BODY", "INVALID_BODY", "SESSION_NOT_FOUND"]
    assert [r["index"] for r in found["results"]] == [0, 1, 2, 3, 4]
    assert found["results"][1]["error"]["details"] == {"field": "to"}


async def test_a_bad_line_does_not_stop_the_stream(plane: MessagePlane) -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield line(1) + b"{broken\n\n" + line(2)

    results = await plane.bulk(lines())
    assert [r["queued"] for r in results] == [True, False, True]
    assert results[1]["error"]["code"] == "INVALID_JSON"


async def test_a_line_without_end_is_refused(plane: MessagePlane) -> None:
    async def lines() -> AsyncIterator[bytes]:
        yield line(1)
        for _ in range(20):
            yield b"x" * 100_000

    results = await plane.bulk(lines())
    assert results[-1]["error"]["code"] == "TOO_LARGE"


async def test_spread_minutes_gives_each_item_its_own_time(plane: MessagePlane) -> None:
    given = plane.now() + 7_200_000
    items: list[dict[str, Any]] = [{"to": f"97252{n:07}", "text": "a"} for n in range(10)]
    items[5]["scheduleAt"] = given
    began = plane.now()
    found = await plane.bulk(items, "?spreadMinutes=10")
    ids = [r["messageId"] for r in found["results"]]
    records = [await plane.store.messages.get(i) for i in ids]
    # the first one's time is now: it may have come before it was stored
    times = [int(record.get("scheduleAt") or record["acceptedAt"]) for record in records]
    assert times.pop(5) == given
    assert times == sorted(times)
    assert times[0] - began < 5000
    assert 9 * 60_000 - 1000 < times[-1] - times[0] <= 9 * 60_000
    for bad in ("-1", "x", "99999999", "20000"):
        answer = await plane.call("POST", f"/api/v1/send/bulk?spreadMinutes={bad}", items)
        assert (answer.status, answer.field) == (422, "spreadMinutes")


async def test_a_spread_bulk_may_be_sent_again(plane: MessagePlane) -> None:
    """The times it was given are not what the caller said: the same items with the same keys are the same messages."""
    items = [{"to": f"97252{n:07}", "text": "a", "idempotencyKey": f"key-{n}"} for n in range(3)]
    first = await plane.bulk(items, "?spreadMinutes=10")
    again = await plane.bulk(items, "?spreadMinutes=10")
    assert [r.get("replayed") for r in again["results"]] == [True] * 3, again
    assert [r["messageId"] for r in again["results"]] == [r["messageId"] for r in first["results"]]


async def test_the_order_of_a_bulk_is_kept_per_recipient(plane: MessagePlane) -> None:
    session = await plane.connected()
    items = [{"to": f"97252{n % 3:07}", "text": str(n)} for n in range(60)]
    await plane.bulk(items)
    got: dict[str, list[int]] = {}
    while sum(map(len, got.values())) < 60:
        for message in await plane.claim(session, most=32):
            got.setdefault(message["to"], []).append(int(message["content"]["text"]))
            await plane.ack(session, message)
    assert all(numbers == sorted(numbers) for numbers in got.values())
