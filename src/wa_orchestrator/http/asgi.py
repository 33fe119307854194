"""Small words for plain ASGI: reading a bounded body, answering JSON, one error shape everywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

import msgspec

from wa_orchestrator.errors import ClientGone, OrchestratorError
from wa_orchestrator.http.too_large import too_large

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

_FILE_PIECE = 1 << 18


async def read_body(receive: Receive, *, limit: int, path: str = "") -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise too_large(path, limit)
        parts.append(part)
        if not message.get("more_body"):
            return b"".join(parts)


async def body_chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body as it comes; raises ClientGone when the caller hung up before its end."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        yield message.get("body", b"")
        if not message.get("more_body"):
            return


def header_map(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name; the last one wins. Made once per request."""
    state: dict[str, Any] = scope.setdefault("state", {})
    found: dict[str, str] | None = state.get("headers")
    if found is None:
        found = state["headers"] = {str(name, "latin-1"): str(value, "latin-1") for name, value in scope["headers"]}
    return found


def error_body(error: OrchestratorError, request_id: str) -> dict[str, Any]:
    body: dict[str, Any] = {"code": error.code, "message": error.message, "requestId": request_id}
    if error.details:
        body["details"] = error.details
    return {"error": body}


def error_headers(error: OrchestratorError) -> list[tuple[bytes, bytes]]:
    headers: list[tuple[bytes, bytes]] = []
    if error.status in {429, 503}:
        headers.append((b"retry-after", str(error.retry_after_s or 1).encode()))
    if error.status == 401:
        headers.append((b"www-authenticate", b"ApiKey"))
    return headers


async def send_json(
    send: Send, status: int, value: object, *, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    await send_body(send, status, msgspec.json.encode(value), content_type=b"application/json", headers=headers)


async def send_body(
    send: Send, status: int, body: bytes, *, content_type: bytes, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    """In one message of ours, `http.response.whole`; the gate, which stands before everything, makes ASGI of it."""
    head = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *(headers or ())]
    await send({"type": "http.response.whole", "status": status, "headers": head, "body": body})


async def send_file(send: Send, path: Path) -> None:
    """A file in pieces, so that a large one does not fill the memory."""
    with path.open("rb") as file:
        size = str(path.stat().st_size).encode()
        headers = [(b"content-type", b"application/octet-stream"), (b"content-length", size)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while part := file.read(_FILE_PIECE):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def send_error(send: Send, error: OrchestratorError, request_id: str) -> None:
    await send_json(send, error.status, error_body(error, request_id), headers=error_headers(error))
