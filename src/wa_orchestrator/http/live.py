"""Live events for dashboards and programs: server-sent events and WebSocket, both resume from a number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse

from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.http.auth import check_key
from wa_orchestrator.rooms import Rooms

_POLICY_VIOLATION = 1008
_FELL_BEHIND = 1013


def sse_router(rooms: Rooms) -> APIRouter:
    router = APIRouter(tags=["events"])

    @router.get("/events/stream", response_class=StreamingResponse, summary="Live events (SSE)")
    async def stream(
        request: Request,
        after: Annotated[int | None, Query(ge=0, description="Resume after this number")] = None,
        session_id: Annotated[str, Query(alias="sessionId", max_length=64)] = "",
    ) -> StreamingResponse:
        """One event per line; `id` is its number, so a browser resumes by itself (Last-Event-ID)."""
        last = request.headers.get("last-event-id", "")
        start = int(last) if last.isdigit() and len(last) < 16 else after
        return StreamingResponse(_lines(rooms, start, session_id), media_type="text/event-stream")

    return router


async def _lines(rooms: Rooms, after: int | None, session_id: str) -> AsyncIterator[bytes]:
    yield b": connected\n\n"
    async for entry in rooms.live.follow(after=after, session_id=session_id):
        if entry is None:
            yield b": still here\n\n"
        else:
            yield b"id: %d\ndata: %s\n\n" % (entry.number, msgspec.json.encode(entry.view()))


def websocket_router(rooms: Rooms) -> APIRouter:
    router = APIRouter()

    @router.websocket("/ws")
    async def live(socket: WebSocket) -> None:
        """The key comes in a header, or as the first message `{"apiKey": …}` from a browser, which cannot set one."""
        await socket.accept()
        try:
            after, session_id = await _greet(socket, rooms)
        except (OrchestratorError, ValueError, TimeoutError, KeyError, RuntimeError):
            await socket.close(_POLICY_VIOLATION, "API key needed")
            return
        except WebSocketDisconnect:
            return
        sender = asyncio.create_task(_push(socket, rooms, after, session_id))
        try:
            while True:
                await socket.receive_text()
        except (WebSocketDisconnect, RuntimeError):
            pass
        finally:
            sender.cancel()
            await asyncio.gather(sender, return_exceptions=True)

    return router


async def _greet(socket: WebSocket, rooms: Rooms) -> tuple[int | None, str]:
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in socket.scope["headers"]}
    query = socket.query_params
    after = query.get("after", "")
    start = int(after) if after.isdigit() and len(after) < 16 else None
    if any(name in headers for name in ("x-api-key", "apikey", "authorization")):
        check_key(headers, rooms.settings.api_key)
        return start, query.get("sessionId", "")
    hello = msgspec.json.decode(await asyncio.wait_for(socket.receive_text(), timeout=5))
    if not isinstance(hello, dict):
        raise ValueError
    check_key({"x-api-key": str(hello["apiKey"])}, rooms.settings.api_key)
    number = hello.get("after", start)
    return number if isinstance(number, int) else start, str(hello.get("sessionId", query.get("sessionId", "")))


async def _push(socket: WebSocket, rooms: Rooms, after: int | None, session_id: str) -> None:
    await socket.send_text('{"type":"hello"}')
    async for entry in rooms.live.follow(after=after, session_id=session_id):
        await socket.send_text(msgspec.json.encode(entry.view()).decode() if entry else '{"type":"still_here"}')
    await socket.close(_FELL_BEHIND, "resume with ?after=")
