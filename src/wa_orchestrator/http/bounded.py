"""What a stranger can make the HTTP side hold before anybody knows who it is: bounds on a request's head.

The HTTP library has neither: one endless header would fill the memory, a thousand silent connections the file handles.
"""

from __future__ import annotations

import asyncio

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024  # browsers and proxies send 1 to 16 KB
HEAD_S = 20.0


class BoundedProtocol(HttpToolsProtocol):
    _outside_body = 0  # bytes since the last piece of a body, or the end of a request
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._outside_body += len(data)
        super().data_received(data)
        if self._outside_body > MOST_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(431, f"The request's head is larger than {MOST_HEAD_BYTES} bytes.")
        elif self._in_head and self._timer is None and self._outside_body:
            self._wait_for_head()  # a request on a kept connection whose head came in part

    # the parser's words -----------------------------------------------------------------------------------------
    def on_message_begin(self) -> None:
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_is_there()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._outside_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._outside_body = 0
        super().on_message_complete()

    # ----------------------------------------------------------------------------------------------------------
    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(HEAD_S, self._head_too_late)

    def _head_is_there(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_too_late(self) -> None:
        self._timer = None
        if self._in_head and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        """In the one shape of all errors; then the connection is of no more use."""
        error = {"code": "TOO_LARGE" if status == 431 else "BAD_REQUEST", "message": message, "requestId": ""}
        body = msgspec.json.encode({"error": error})
        reason = b"Request Header Fields Too Large" if status == 431 else b"Bad Request"
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        self.transport.write(head % (status, reason, len(body)) + body)
        self.transport.close()
