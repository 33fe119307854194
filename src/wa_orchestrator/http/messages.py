"""Messages over HTTP: look, list, cancel, drive again; uploads."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request

from wa_orchestrator.errors import MessageNotFound
from wa_orchestrator.gateway.asking import story_of
from wa_orchestrator.gateway.story import message_view
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.model.caller import Caller
from wa_orchestrator.rooms import GatewayRooms

_SCAN_AT_ONCE = 500
_MOST_SCANNED = 20_000
_FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}


def messages_router(rooms: GatewayRooms) -> Routes:
    router = Routes(tags=["messages"])
    store = rooms.store

    @router.get("/messages", summary="List messages, newest first")
    async def list_messages(
        caller: CallerHere,
        status: Annotated[str, Query(max_length=20)] = "",
        session_id: Annotated[str, Query(alias="sessionId", max_length=64)] = "",
        to: Annotated[str, Query(max_length=60)] = "",
        reference: Annotated[str, Query(max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 50,
        cursor: Annotated[str, Query(max_length=40)] = "",
    ) -> dict[str, Any]:
        """Filters look through the newest 20,000; `nextCursor` goes on from where the page ended."""
        digits = to.lstrip("+").split("@")[0]
        found: list[dict[str, Any]] = []
        last, scanned, ended = cursor, 0, False
        while scanned < _MOST_SCANNED and len(found) < limit and not ended:
            ids = await store.messages.newest(before=last, limit=_SCAN_AT_ONCE)
            records = {record["id"]: record for record in await store.messages.many(ids)}
            for message_id in ids:
                if len(found) == limit:
                    break
                last = message_id
                if message_id not in records or not _sees(caller, records[message_id]):  # forgotten, or others'
                    continue
                view = message_view(records[message_id])
                if (
                    (not status or view["status"] == status)
                    and (not session_id or view["sessionId"] == session_id)
                    and (not digits or view["to"].startswith(digits))
                    and (not reference or view["reference"] == reference)
                ):
                    found.append(view)
            scanned += len(ids)
            ended = len(ids) < _SCAN_AT_ONCE and (not ids or last == ids[-1])
        return {"messages": found, "nextCursor": None if ended else last}

    @router.get("/messages/dead", summary="Failed messages, newest first")
    async def dead(caller: CallerHere, limit: Annotated[int, Query(ge=1, le=500)] = 100) -> dict[str, Any]:
        records = await store.messages.many(await store.messages.dead(limit=limit))
        return {"messages": [message_view(r) for r in records if _sees(caller, r)]}

    @router.get("/messages/{message_id}", summary="A message's whole story")
    async def show(message_id: str, caller: CallerHere) -> dict[str, Any]:
        record = await known(message_id, caller)
        return await story_of(store, record, now_ms=rooms.clock.now_ms())

    async def known(message_id: str, caller: Caller) -> dict[str, str]:
        """Others' messages are as good as not there: ids tell nothing to whoever tries them."""
        record = await store.messages.get(message_id)
        if record is None or not _sees(caller, record):
            raise MessageNotFound
        return record

    @router.post("/messages/{message_id}/cancel", summary="Cancel a message that no worker has yet")
    @router.delete("/messages/{message_id}", summary="Cancel a message", operation_id="cancel_by_delete")
    async def cancel(message_id: str, caller: CallerHere) -> dict[str, Any]:
        await known(message_id, caller)
        state = await store.messages.cancel(message_id, reason="CANCELLED_BY_CLIENT")
        return {"messageId": message_id, "status": state}

    @router.post("/messages/{message_id}/redrive", summary="Drive a failed message again")
    async def redrive(message_id: str, caller: CallerHere) -> dict[str, Any]:
        await known(message_id, caller)
        return {"messageId": message_id, "status": await store.messages.redrive(message_id)}

    @router.post("/media", status_code=201, openapi_extra=_FILE, summary="Upload a file to send by mediaId")
    async def upload(request: Request) -> dict[str, Any]:
        """The raw file as the body. Use it as {image: {mediaId}}; it is kept for a week."""
        media_id, size = await rooms.media.save(request.stream())
        return {"mediaId": media_id, "sizeBytes": size}

    return router


def _sees(caller: Caller, record: dict[str, str]) -> bool:
    session_id = record.get("outboxOf") or record.get("session")
    return caller.sees_message(session_id=session_id, by=record.get("by", ""))
