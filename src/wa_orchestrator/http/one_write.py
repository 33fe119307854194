"""Head and body of an answer leave together: uvicorn writes them apart, which costs a system call and a packet more.

An answer that is known as a whole is written without uvicorn's steps for streams: they check every header, byte by
byte, that we have just made ourselves.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from wa_orchestrator.http.asgi import Scope
from wa_orchestrator.http.noticing import NoticingProtocol

# more than that goes out at once: a file or a stream must feel the reader's pace
_MOST_HELD = 16 * 1024


class OneWriteProtocol(NoticingProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._gathering = GatheringTransport(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._gathering))

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self.scope["state"]["cycle"] = self.cycle  # the application runs later, in a task

    def handle_websocket_upgrade(self) -> None:
        self.transport = self._gathering.bare()
        super().handle_websocket_upgrade()


class GatheringTransport:
    """Passes on what was written in one turn of the loop as one piece."""

    __slots__ = ("_held", "_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._held = 0

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._held += len(data)
        if self._held > _MOST_HELD:
            self.flush()

    def write_at_once(self, data: bytes) -> None:
        self.flush()
        if not self._transport.is_closing():
            self._transport.write(data)

    def flush(self) -> None:
        if self._parts:
            whole = b"".join(self._parts)
            self._parts.clear()
            self._held = 0
            if not self._transport.is_closing():
                self._transport.write(whole)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def bare(self) -> asyncio.Transport:
        """The transport itself, for another protocol to take over."""
        self.flush()
        return self._transport

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def answer_at_once(scope: Scope, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
    """Writes an answer of ours whose length is among its headers. False: it has to go the usual way."""
    cycle: RequestResponseCycle | None = scope["state"].get("cycle")
    if (
        cycle is None
        or cycle.response_started
        or cycle.disconnected
        or not cycle.keep_alive
        or cycle.flow.write_paused
        or scope["method"] == "HEAD"
    ):
        return False
    cycle.response_started = cycle.response_complete = True
    parts = [STATUS_LINE[status]]
    for name, value in (*cycle.default_headers, *headers):
        parts += (name, b": ", value, b"\r\n")
    parts += (b"\r\n", body)
    cast(GatheringTransport, cycle.transport).write_at_once(b"".join(parts))
    cycle.message_event.set()  # whoever waits for more of the request hears that it is over
    cycle.on_response()
    return True
