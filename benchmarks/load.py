"""A load generator for HTTP/1.1: keep-alive connections, each with one request under way, no library in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import urlsplit

_ENDS = b"\r\n\r\n"
_LENGTH = b"content-length: "


@dataclass
class Tally:
    answers: int = 0
    refused: int = 0
    first_refusal: bytes = b""
    latencies_s: list[float] = field(default_factory=list)


class _Caller(asyncio.Protocol):
    """Sends the next request as soon as the answer to the last one is whole."""

    def __init__(self, next_request: Callable[[], bytes], tally: Tally) -> None:
        self._next = next_request
        self._tally = tally
        self._rest = b""
        self._began = 0.0
        self._transport: asyncio.Transport | None = None
        self.running = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._ask()

    def _ask(self) -> None:
        assert self._transport
        self._began = time.perf_counter()
        self._transport.write(self._next())

    def data_received(self, data: bytes) -> None:
        data = self._rest + data if self._rest else data
        end = data.find(_ENDS)
        if end < 0 or len(data) < end + 4 + _content_length(data, end):
            self._rest = data
            return
        self._rest = b""
        self._tally.answers += 1
        self._tally.latencies_s.append(time.perf_counter() - self._began)
        if data[9:12] != b"202":
            self._tally.refused += 1
            self._tally.first_refusal = self._tally.first_refusal or data[:600]
        if self.running:
            self._ask()

    def stop(self) -> None:
        self.running = False
        if self._transport:
            self._transport.close()


def _content_length(data: bytes, end: int) -> int:
    at = data.find(_LENGTH, 0, end)
    if at < 0:
        # node writes Content-Length
        at = data.lower().find(_LENGTH, 0, end)
    return int(data[at + len(_LENGTH) : data.find(b"\r\n", at)])


def request_head(path: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json", *headers]
    return ("\r\n".join(lines) + "\r\n").encode()


def with_body(head: bytes, body: bytes) -> bytes:
    return b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body)


class Load:
    """Connections that ask until told to stop; `tally` can be replaced while they run."""

    def __init__(self, callers: list[_Caller], tally: Tally) -> None:
        self._callers = callers
        self.tally = tally

    def restart_count(self) -> Tally:
        self.tally = Tally()
        for caller in self._callers:
            caller._tally = self.tally
        return self.tally

    async def stop(self) -> None:
        for caller in self._callers:
            caller.stop()
        await asyncio.sleep(0.05)


async def start_load(url: str, next_request: Callable[[], bytes], *, connections: int) -> Load:
    parts = urlsplit(url)
    tally = Tally()
    loop = asyncio.get_running_loop()
    callers = []
    for _ in range(connections):
        _, caller = await loop.create_connection(
            lambda: _Caller(next_request, tally), parts.hostname or "127.0.0.1", parts.port or 80
        )
        callers.append(caller)
    return Load(callers, tally)
