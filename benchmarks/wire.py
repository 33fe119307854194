"""One worker's connection to the control plane: signed requests over a kept-alive socket, as cheap as can be."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Self

from benchmarks.world import WEBHOOK_SECRET
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.worker_api.signature import session_secret, sign


def place(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


class Wire:
    def __init__(self, session_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._secret = session_secret(WEBHOOK_SECRET, session_id)
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, session_id: str, url: str) -> Self:
        return cls(session_id, *await asyncio.open_connection(*place(url)))

    async def post(self, path: str, body: object) -> Any:
        raw = json.dumps(body).encode()
        stamp = str(SystemClock().now_ms())
        head = (f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                f"x-webhook-timestamp: {stamp}\r\nx-webhook-signature: sha256={sign(self._secret, stamp, raw)}\r\n"
                f"content-length: {len(raw)}\r\n\r\n")  # fmt: skip
        self._writer.write(head.encode() + raw)
        return json.loads(await answer_body(self._reader))

    def close(self) -> None:
        self._writer.close()


async def answer_body(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return await reader.readexactly(length)


async def bare_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answered without any work: what the way there and back costs."""
    writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await answer_body(reader)
