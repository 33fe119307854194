"""Live events for dashboards and programs: server-sent events and WebSocket, both resume from a number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query, Request, WebSocket, WebSocketDisconnect
from fastapi.responses import StreamingResponse

from wa_orchestrator.errors import Forbidden, OrchestratorError
from wa_orchestrator.http.asgi import header_map
from wa_orchestrator.http.auth import Door, Welcome, given_key
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere, check_named_sessions, check_right, needs_of
from wa_orchestrator.model.caller import Caller
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.store.journal import GAP

_POLICY_VIOLATION = 1008
_FELL_BEHIND = 1013


def sse_router(rooms: Rooms, door: Door) -> Routes:
    router = Routes(tags=["events"])

    @router.get("/events/stream", response_class=StreamingResponse, summary="Live events (SSE)")
    async def stream(
        request: Request,
        caller: CallerHere,
        after: Annotated[int | None, Query(ge=0, description="Resume after this number")] = None,
        session_id: Annotated[str, Query(alias="sessionId", max_length=64)] = "",
    ) -> StreamingResponse:
        """One event per line; `id` is its number, so a browser resumes by itself (Last-Event-ID)."""
        last = request.headers.get("last-event-id", "")
        start = _number(last) if _number(last) is not None else after
        place = await rooms.live.place(start)
        welcome = Welcome(door, header_map(request.scope), caller)
        return StreamingResponse(_lines(rooms, place, session_id, caller, welcome), media_type="text/event-stream")

    return router


def _number(text: str) -> int | None:
    """A journal number as a client gives it; anything else is no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


async def _lines(rooms: Rooms, after: int, session_id: str, caller: Caller, welcome: Welcome) -> AsyncIterator[bytes]:
    yield b": connected\n\n"
    async for entry in rooms.live.follow(after=after, session_id=session_id):
        if await welcome.over():
            return
        if entry is None:
            yield b": still here\n\n"
        elif caller.sees(entry.session_id) or entry.type == GAP:
            yield b"id: %d\ndata: %s\n\n" % (entry.number, entry.wire)


def websocket_router(rooms: Rooms, door: Door) -> APIRouter:
    router = APIRouter()

    @router.websocket("/ws")
    async def live(socket: WebSocket) -> None:
        """The key comes in a header, or as the first message `{"apiKey": …}` from a browser, which cannot set one."""
        await socket.accept()
        try:
            after, session_id, caller, welcome = await _greet(socket, door)
        except Forbidden:
            await socket.close(_POLICY_VIOLATION, "this key may not listen to that")
            return
        except (OrchestratorError, ValueError, TimeoutError, KeyError, RuntimeError):
            await socket.close(_POLICY_VIOLATION, "API key needed")
            return
        except WebSocketDisconnect:
            return
        pushing = _push(socket, rooms, after, session_id, caller, welcome)
        tasks = [asyncio.create_task(pushing), asyncio.create_task(_until_left(socket))]
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


async def _greet(socket: WebSocket, door: Door) -> tuple[int | None, str, Caller, Welcome]:
    headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in socket.scope["headers"]}
    query = socket.query_params
    start = _number(query.get("after", ""))
    if given_key(headers):
        caller = await _welcomed(door, headers, session_id := query.get("sessionId", ""))
        return start, session_id, caller, Welcome(door, headers, caller)
    hello = msgspec.json.decode(await asyncio.wait_for(socket.receive_text(), timeout=5))
    if not isinstance(hello, dict):
        raise ValueError
    headers = {"x-api-key": str(hello["apiKey"])}
    session_id = str(hello.get("sessionId", query.get("sessionId", "")))
    caller = await _welcomed(door, headers, session_id)
    number = hello.get("after")
    after = _number(str(number)) if isinstance(number, int) else start
    return after, session_id, caller, Welcome(door, headers, caller)


async def _welcomed(door: Door, headers: dict[str, str], session_id: str) -> Caller:
    # only a key opens a socket: a cookie would come along from pages of other sites too
    caller = await door.ring.caller(given_key(headers))
    check_right(caller, needs_of("WS", "/ws"))
    check_named_sessions(caller, {}, {"sessionId": session_id})
    return caller


async def _push(
    socket: WebSocket, rooms: Rooms, after: int | None, session_id: str, caller: Caller, welcome: Welcome
) -> None:
    place = await rooms.live.place(after)
    await socket.send_text('{"type":"hello"}')
    async for entry in rooms.live.follow(after=place, session_id=session_id):
        if await welcome.over():
            return
        if entry is None:
            await socket.send_text('{"type":"still_here"}')
        elif caller.sees(entry.session_id) or entry.type == GAP:
            await socket.send_text(entry.wire.decode())
