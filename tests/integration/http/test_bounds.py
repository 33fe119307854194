"""What a stranger can make the server hold: bounded before anybody knows who it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from support.control_plane import API_KEY, ControlPlane
from wa_orchestrator.http import bounded


async def opened(plane: ControlPlane) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(plane.url)
    return await asyncio.open_connection(place.hostname, place.port)


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    return await asyncio.wait_for(reader.read(), timeout=10)


async def send_until_refused(writer: asyncio.StreamWriter, piece: bytes, *, most: int) -> int:
    """How many bytes the server took before it hung up."""
    sent = 0
    try:
        while sent < most:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
    except ConnectionError:
        pass
    return sent


ENDLESS = {
    "many headers": (b"GET /health HTTP/1.1\r\nHost: x\r\n", b"X-More: " + b"a" * 1000 + b"\r\n"),
    "one header": (b"GET /health HTTP/1.1\r\nHost: x\r\nX-Endless: ", b"a" * 1000),
    "address": (b"GET /", b"a" * 1000),
    "name": (b"GET /health HTTP/1.1\r\nHost: x\r\n", b"a" * 1000),
    "trailers": (
        b"POST /api/webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"X-T: " + b"a" * 995 + b"\r\n",
    ),
}


async def test_an_endless_head_is_refused(plane: ControlPlane) -> None:
    for what, (begin, piece) in ENDLESS.items():
        _, writer = await opened(plane)
        writer.write(begin)
        sent = await send_until_refused(writer, piece, most=50_000_000)
        assert sent < 20_000_000, f"{what}: sockets hold some of it; the server does not go on reading"
        writer.close()
        assert (await plane.call("GET", "/ready")).status == 200


async def test_the_refusal_of_a_large_head_says_why(plane: ControlPlane) -> None:
    reader, writer = await opened(plane)
    writer.write(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Large: " + b"a" * (bounded.MOST_HEAD_BYTES + 1))
    head, _, body = (await until_closed(reader)).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 431 ")
    assert json.loads(body)["error"]["code"] == "TOO_LARGE"
    writer.close()


async def test_usual_large_heads_and_kept_connections_pass(plane: ControlPlane) -> None:
    for _ in range(3):
        answer = await plane.call("GET", "/health", headers={"X-Large": "a" * 7000, "Cookie": "b" * 7000})
        assert answer.status == 200
    reader, writer = await opened(plane)
    one = b"GET /ready HTTP/1.1\r\nHost: x\r\nX-Pad: " + b"a" * 900 + b"\r\n\r\n"
    writer.write(one * 200)  # 190 KB of small requests in a row are no large head
    seen = b""
    while seen.count(b'{"ready":true}') < 200:
        part = await asyncio.wait_for(reader.read(65536), timeout=10)
        assert part
        seen += part
    writer.close()


async def test_long_bodies_in_small_pieces_pass(plane: ControlPlane) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(30_000):
            yield b"x\n"

    answer = await plane.call(
        "POST", "/api/v1/send/bulk", raw=pieces(), headers={"Content-Type": "application/x-ndjson"}
    )
    assert answer.status == 202
    assert answer.body.count(b"\n") == 30_000


async def test_a_connection_that_says_nothing_is_closed(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "HEAD_S", 0.3)
    silent, silent_writer = await opened(plane)
    slow, slow_writer = await opened(plane)
    slow_writer.write(b"GET /health HTTP/1.1\r\nHost:")
    kept, kept_writer = await opened(plane)
    kept_writer.write(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"200 OK" in await asyncio.wait_for(kept.read(65536), timeout=10)
    kept_writer.write(b"GET /rea")  # its next request comes in part and then stops
    for reader in (silent, slow, kept):
        assert await until_closed(reader) == b""
    for writer in (silent_writer, slow_writer, kept_writer):
        writer.close()


async def test_a_slow_answer_is_not_cut_by_the_bound_on_heads(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "HEAD_S", 0.2)
    await plane.add_proxies(1)
    session_id = await plane.provision()
    path = f"/api/worker/sessions/{session_id}/outbox/claim"
    answer = await plane.signed(path, {"max": 1, "waitMs": 800}, session_id=session_id)
    assert answer.status == 200


async def test_garbage_is_refused_in_the_one_shape(plane: ControlPlane) -> None:
    for garbage in (b"\x16\x03\x01\x02\x00\x01", b"HELLO\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n"):
        reader, writer = await opened(plane)
        writer.write(garbage)
        writer.write_eof()
        head, _, body = (await until_closed(reader)).partition(b"\r\n\r\n")
        if head:
            assert head.startswith(b"HTTP/1.1 400"), garbage
            assert json.loads(body)["error"]["code"] == "BAD_REQUEST"
        writer.close()


async def test_deep_json_is_refused_everywhere(plane: ControlPlane) -> None:
    deep = b"[" * 100_000
    document = (await plane.call("GET", "/openapi.json")).json
    tried = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "application/json" not in operation.get("requestBody", {}).get("content", {}):
                continue
            address = "/".join("x" if part.startswith("{") else part for part in path.split("/"))
            answer = await plane.call(method.upper(), address, raw=deep, headers={"Content-Type": "application/json"})
            assert 400 <= answer.status < 500, (method, path, answer.body)
            tried += 1
    assert tried >= 10


async def test_thousands_of_query_fields_take_no_harm(plane: ControlPlane) -> None:
    query = "&".join(f"f{n}=1" for n in range(8000))
    for path in ("/api/v1/messages", "/api/sessions", "/api/v1/send/bulk"):
        answer = await plane.call("GET", f"{path}?{query}"[:60_000], key=API_KEY)
        assert answer.status in {200, 405, 422}, answer.body


SECURITY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}


async def test_every_kind_of_answer_carries_the_security_headers(plane: ControlPlane) -> None:
    for method, path in (
        ("GET", "/health"), ("GET", "/metrics"), ("GET", "/docs"), ("GET", "/sign-in"), ("GET", "/nowhere"),
        ("POST", "/api/v1/send"), ("POST", "/api/webhook"), ("DELETE", "/api/sessions"), ("GET", "/api/sessions"),
    ):  # fmt: skip
        answer = await plane.call(method, path)
        for name, value in SECURITY.items():
            assert answer.headers.get(name) == value, (method, path, name)
        assert "server" not in answer.headers, "which program and version answers is nobody's business"
