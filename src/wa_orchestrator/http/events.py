"""The journal over HTTP: from a number on, with a long poll for those who do not keep a stream open."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from pydantic import Field

from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.events.catalogue import EVENT_TYPES
from wa_orchestrator.events.events_page import EventQuestion, read_page
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.http.views import EventView, View
from wa_orchestrator.rooms import Rooms

_LONGEST_WAIT_MS = 60_000


class GapView(View):
    from_: int = Field(alias="from")
    to: int | None
    restarted: bool = Field(default=False, description="The store was emptied: numbers begin anew")


class EventsView(View):
    events: list[EventView]
    last: int = Field(description="How far was looked: go on with after=last")
    oldest: int = Field(description="The first number that is kept")
    newest: int = Field(description="The last number ever given")
    gap: GapView | None = None


class EventTypeView(View):
    type: str
    about: str
    data: dict[str, str]


class EventTypeList(View):
    types: list[EventTypeView]


def asked_types(text: str) -> tuple[str, ...]:
    """`message.*,CONNECTED`; a type that does not exist is a slip that would never show."""
    found = tuple(part for part in (word.strip() for word in text.split(",")) if part)
    for kind in found:
        known = any(name.startswith(kind[:-1]) for name in EVENT_TYPES) if kind.endswith("*") else kind in EVENT_TYPES
        if not known:
            raise InvalidBody(f"There is no event type {kind[:60]}.", details={"field": "types"})
    return found


def events_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["events"])

    @router.get("/events", response_model=EventsView, response_model_exclude_none=True,
                summary="The journal after a number")  # fmt: skip
    async def events(
        caller: CallerHere,
        after: Annotated[
            int | None, Query(ge=0, le=2**53, description="The last number you have; without it, from the oldest kept")
        ] = None,
        types: Annotated[str, Query(max_length=2000, description="Comma-separated; `message.*` for a group")] = "",
        session: Annotated[str, Query(max_length=64)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        wait_ms: Annotated[int, Query(alias="waitMs", ge=0, le=_LONGEST_WAIT_MS)] = 0,
    ) -> Response:
        """Go on with `after=last`. `gap` names numbers that are no longer kept, so that nothing is missed unnoticed.

        With `waitMs` an empty answer waits until something comes.
        """
        question = EventQuestion(
            after=after, types=asked_types(types), session_id=session, limit=limit,
            sees=None if caller.sessions is None else caller.sees,
        )  # fmt: skip
        deadline = asyncio.get_running_loop().time() + wait_ms / 1000
        while True:
            page = await read_page(rooms.store, question)
            left_s = deadline - asyncio.get_running_loop().time()
            if page.events or page.gap or left_s <= 0 or rooms.live.closing.is_set():
                return Response(page.json(), media_type="application/json")
            question = question.from_here(page.last)
            await rooms.live.wait_beyond(page.last, timeout_s=left_s)

    @router.get("/events/types", summary="Every type of event and its data")
    async def event_types() -> EventTypeList:
        return EventTypeList(
            types=[EventTypeView(type=kind.name, about=kind.about, data=kind.data) for kind in EVENT_TYPES.values()]
        )

    return router
