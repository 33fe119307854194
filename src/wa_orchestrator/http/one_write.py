"""Head and body of an answer leave together: uvicorn writes them apart, which costs a system call and a packet more."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from wa_orchestrator.http.bounded import BoundedProtocol

# more than that goes out at once: a file or a stream must feel the reader's pace
_MOST_HELD = 16 * 1024


class OneWriteProtocol(BoundedProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._gathering = GatheringTransport(transport, self.loop)
        super().connection_made(cast(asyncio.Transport, self._gathering))

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
