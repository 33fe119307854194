"""The suppression list over HTTP: look, add, take off, import and export."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from wa_orchestrator.errors import InvalidBody, InvalidRecipient, NotSuppressed, OrchestratorError
from wa_orchestrator.gateway.recipient import recipient_jid, recipient_key
from wa_orchestrator.http.audit_trail import name_subject
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.model.caller import Right
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.store.suppression import Source, Suppressed
from wa_orchestrator.suppression.advice import entry_view

_LINES = {"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}}
_TEXT: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}, "description": "A number per line"}}
_AT_ONCE = 1000
_REASONS = "opted_out, complaint, wrong_number, legal or a word of your own"


class SuppressBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    phone: str = Field(max_length=60)
    reason: str = Field(default="by_hand", min_length=1, max_length=60, description=_REASONS)
    note: str = Field(default="", max_length=200)


def suppression_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["responsible sending"])
    store = rooms.store.suppression

    async def add(phone: str, *, reason: str, source: Source, by: str, note: str = "") -> tuple[bool, int]:
        entry = Suppressed(phone=phone, reason=reason, source=source, at=rooms.clock.now_ms(), by=by, note=note)
        return await store.add(entry)

    @router.get("/suppression", summary="Numbers that get no messages, newest first")
    async def list_suppressed(
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        offset: Annotated[int, Query(ge=0, le=100_000_000)] = 0,
    ) -> dict[str, Any]:
        entries = await store.newest(start=offset, limit=limit)
        return {"suppressed": [entry_view(entry) for entry in entries], "total": await store.count()}

    @router.get(
        "/suppression/export", response_class=StreamingResponse, responses=_TEXT, summary="The whole list, one per line"
    )
    async def export() -> StreamingResponse:
        """`number<TAB>reason<TAB>source<TAB>time`; the import takes the same form."""
        return StreamingResponse(_lines(rooms), media_type="text/plain; charset=utf-8")

    @router.get("/suppression/{phone}", summary="Why a number gets no messages")
    async def get(phone: str, caller: CallerHere) -> dict[str, Any]:
        """Who only sends, or for some sessions only, learns that it is so and since when, not what others noted."""
        entry = await store.get(read_recipient(phone))
        if entry is None:
            raise NotSuppressed
        view = entry_view(entry)
        if caller.limited or not caller.may(Right.READ):
            view.update(by=None, note=None)
        return view

    @router.post(
        "/suppression",
        status_code=201,
        responses={200: {"description": "It was there already"}},
        summary="Put a number on the list; what waits for it is cancelled",
    )
    async def post(body: SuppressBody, request: Request, response: Response, caller: CallerHere) -> dict[str, Any]:
        phone = read_recipient(body.phone)
        name_subject(request.scope, phone)
        added, cancelled = await add(phone, reason=body.reason, source="hand", by=caller.by, note=body.note)
        response.status_code = 201 if added else 200
        entry = await store.get(phone)
        return {**(entry_view(entry) if entry else {"phone": phone}), "added": added, "cancelled": cancelled}

    @router.post("/suppression/import", openapi_extra=_LINES, summary="Put many numbers on the list, one per line")
    async def import_(request: Request, caller: CallerHere) -> dict[str, Any]:
        """A number, then, after a tab, comma or semicolon, a reason. `#` begins a comment. Repeats are harmless."""
        try:
            text = (await request.body()).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InvalidBody("Send the lines as UTF-8 text.", details={"field": "body"}) from None
        good, errors = read_lines(text)
        done: list[tuple[bool, int]] = []
        for start in range(0, len(good), _AT_ONCE):
            adding = (add(phone, reason=reason or "imported", source="import", by=caller.by)
                      for phone, reason in good[start : start + _AT_ONCE])  # fmt: skip
            done += await asyncio.gather(*adding)
        added = sum(is_new for is_new, _ in done)
        name_subject(request.scope, f"{added} added")
        cancelled = sum(ended for _, ended in done)
        return {"added": added, "known": len(done) - added, "cancelled": cancelled, "errors": errors[:_AT_ONCE]}

    @router.delete("/suppression/{phone}", summary="Take a number off the list")
    async def delete(phone: str, caller: CallerHere) -> dict[str, Any]:
        return {"phone": await store.remove(read_recipient(phone), by=caller.by), "removed": True}

    return router


def read_recipient(text: str) -> str:
    """A number or a LID, as recipients are named in the store."""
    jid = recipient_jid(text)
    if jid.endswith("@g.us"):
        raise InvalidRecipient("Groups cannot be on the list; write a number.", details={"field": "phone"})
    return recipient_key(jid)


def read_line(line: str) -> tuple[str, str] | None:
    """(number, reason) of a line of an import; None for an empty one or a comment."""
    text = line.partition("#")[0].strip()
    if not text:
        return None
    for separator in ("\t", ";", ","):
        if separator in text:
            number, _, rest = text.partition(separator)
            return number.strip(), rest.split(separator)[0].strip()[:60]
    return text, ""


def read_lines(text: str) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
    """(number, reason) of each line that is understood, and what is wrong with the others."""
    good: list[tuple[str, str]] = []
    errors: list[dict[str, Any]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if (given := read_line(line)) is None:
            continue
        try:
            good.append((read_recipient(given[0]), given[1]))
        except OrchestratorError as error:
            errors.append({"line": number, "message": error.message})
    return good, errors


async def _lines(rooms: Rooms) -> AsyncIterator[str]:
    async for entry in rooms.store.suppression.each():
        view = entry_view(entry)
        fields = (str(view[name] or "") for name in ("phone", "reason", "source", "at"))
        yield "\t".join(" ".join(field.split()) for field in fields) + "\n"
