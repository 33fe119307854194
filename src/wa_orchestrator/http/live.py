"""Live events for dashboards and programs: server-sent events and WebSocket, both resume from a number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
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
        start = _number(last) if _number(last) is not None else after
        place = await rooms.live.place(start)
        return StreamingResponse(_lines(rooms, place, session_id), media_type="text/event-stream")

    return router


def _number(text: str) -> int | None:
    """A journal number as a client gives it; anything else is no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


async def _lines(rooms: Rooms, after: int, session_id: str) -> AsyncIterator[bytes]:
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
        tasks = [asyncio.create_task(_push(socket, rooms, after, session_id)), asyncio.create_task(_until_left(socket))]
        try:
            # whichever ends first ends both: a stream that broke must not look alive
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if tasks[0].done() and not tasks[0].cancelled():
            with suppress(RuntimeError, WebSocketDisconnect):
                await socket.close(_FELL_BEHIND, "resume with ?after=")

    return router


async def _until_left(socket: WebSocket) -> None:
    """What a listener says is read and not heeded; returns when it hung up."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass


async def _greet(socket: WebSocket, rooms: Rooms) -> tuple[int | None, str]:
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in socket.scope["headers"]}
    query = socket.query_params
    start = _number(query.get("after", ""))
    if any(name in headers for name in ("x-api-key", "apikey", "authorization")):
        check_key(headers, rooms.settings.api_key)
        return start, query.get("sessionId", "")
    hello = msgspec.json.decode(await asyncio.wait_for(socket.receive_text(), timeout=5))
    if not isinstance(hello, dict):
        raise ValueError
    check_key({"x-api-key": str(hello["apiKey"])}, rooms.settings.api_key)
    number = hello.get("after")
    after = _number(str(number)) if isinstance(number, int) else start
    return after, str(hello.get("sessionId", query.get("sessionId", "")))


async def _push(socket: WebSocket, rooms: Rooms, after: int | None, session_id: str) -> None:
    place = await rooms.live.place(after)
    await socket.send_text('{"type":"hello"}')
    async for entry in rooms.live.follow(after=place, session_id=session_id):
        await socket.send_text(msgspec.json.encode(entry.view()).decode() if entry else '{"type":"still_here"}')
