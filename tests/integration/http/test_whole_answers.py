"""Answers that leave in one piece are plain HTTP all the same: in order, complete, on a connection that goes on."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import urlsplit

from support.control_plane import API_KEY, ControlPlane

_NOBODY = b'{"to":"972520000001","text":"hello","sessionId":"nobody"}'


def _post(body: bytes, *more: bytes, version: bytes = b"1.1", key: str = API_KEY) -> bytes:
    head = [
        b"POST /api/v1/send HTTP/" + version, b"Host: x", b"X-Api-Key: " + key.encode(),
        b"Content-Length: %d" % len(body), *more,
    ]  # fmt: skip
    return b"\r\n".join(head) + b"\r\n\r\n" + body


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], dict[str, object]]:
    lines = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    body = await asyncio.wait_for(reader.readexactly(int(headers["content-length"])), 10)
    return int(lines[0].split()[1]), headers, json.loads(body)


async def _opened(plane: ControlPlane) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    place = urlsplit(plane.url)
    return await asyncio.open_connection(place.hostname, place.port)


async def test_requests_in_one_packet_are_answered_in_order(plane: ControlPlane) -> None:
    reader, writer = await _opened(plane)
    ids = [f"number-{n}" for n in range(5)]
    writer.write(b"".join(_post(_NOBODY, b"X-Request-Id: " + i.encode()) for i in ids))
    for expected in ids:
        status, headers, body = await _answer(reader)
        assert status == 404
        assert body["error"]["requestId"] == headers["x-request-id"] == expected  # type: ignore[index]
        assert headers["content-type"] == "application/json"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "date" in headers
    # and the connection serves on
    writer.write(_post(b"{", b"X-Request-Id: last"))
    assert (await _answer(reader))[0] == 400
    writer.close()


async def test_who_asks_for_an_end_gets_it(plane: ControlPlane) -> None:
    for request in (_post(_NOBODY, b"Connection: close"), _post(_NOBODY, version=b"1.0")):
        reader, writer = await _opened(plane)
        writer.write(request)
        status, headers, _ = await _answer(reader)
        assert (status, headers["connection"]) == (404, "close")
        assert await asyncio.wait_for(reader.read(), 10) == b"", "the server hangs up"
        writer.close()


async def test_an_answer_before_the_body_came_does_not_disturb_the_next_request(plane: ControlPlane) -> None:
    reader, writer = await _opened(plane)
    request = _post(_NOBODY, key="wrong")
    writer.write(request[:-20])
    assert (await _answer(reader))[0] == 401
    writer.write(request[-20:] + _post(_NOBODY))
    assert (await _answer(reader))[0] == 404
    writer.close()
