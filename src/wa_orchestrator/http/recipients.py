"""Recipients over HTTP: what may be sent to a number and why not, and how it agreed."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from wa_orchestrator.clock import iso
from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.http.suppression import read_recipient
from wa_orchestrator.model.limits import read_instant
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.store.suppression import ConsentNote
from wa_orchestrator.suppression.advice import recipient_view


class ConsentBody(BaseModel):
    model_config = ConfigDict(extra="forbid")

    source: str = Field(min_length=1, max_length=100, description="Where it was given: web form, contract …")
    at: str | int | None = Field(default=None, description="When; left out: now")
    note: str = Field(default="", max_length=500)


def recipients_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["responsible sending"])

    @router.get("/recipients/{phone}", summary="What may be sent to a number, and why not")
    async def get(phone: str) -> dict[str, Any]:
        number = read_recipient(phone)
        return recipient_view(number, await rooms.store.suppression.recipient(number))

    @router.post("/recipients/{phone}/consent", status_code=201, summary="Note how a number agreed to messages")
    async def consent(phone: str, body: ConsentBody, caller: CallerHere) -> dict[str, Any]:
        """A note for the record: it does not lift an opt-out. The newest 50 are kept."""
        number = read_recipient(phone)
        now = rooms.clock.now_ms()
        at = now if body.at is None else read_instant("at", body.at)
        if at > now:
            raise InvalidBody("at: consent cannot be given in the future.", details={"field": "at"})
        note = ConsentNote(source=body.source, at=at, note=body.note, by=caller.by)
        await rooms.store.suppression.add_consent(number, note)
        return {"phone": number, "source": note.source, "at": iso(note.at), "note": note.note or None, "by": note.by}

    return router
