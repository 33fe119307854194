"""The audit log over HTTP, newest first. For admins."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.store.audit import AuditLine

_AT_ONCE = 500
_MOST_SCANNED = 20_000
_PLACE = r"^([0-9]{1,15}-[0-9]{1,10})?$"


def audit_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["keys"])

    @router.get("/audit", summary="Who changed what, newest first")
    async def audit(
        by: Annotated[str, Query(max_length=64)] = "",
        what: Annotated[str, Query(max_length=100, description="Part of the call, such as `DELETE` or `/keys`")] = "",
        on: Annotated[str, Query(max_length=100, description="A session, phone, key or message")] = "",
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
        cursor: Annotated[str, Query(pattern=_PLACE, description="`nextCursor` of the page before")] = "",
    ) -> dict[str, Any]:
        """Every call that changed something or was refused; who sent a message stands in the message itself (`by`)."""
        found, after = await look_through(rooms, by=by, what=what, on=on, limit=limit, cursor=cursor)
        return {"lines": [line.view() for line in found], "nextCursor": after}

    return router


async def look_through(
    rooms: Rooms, *, by: str = "", what: str = "", on: str = "", limit: int, cursor: str = ""
) -> tuple[list[AuditLine], str | None]:
    """The newest lines that fit, and where the next page begins; looks through 20,000 at most."""
    found: list[AuditLine] = []
    scanned = 0
    while scanned < _MOST_SCANNED:
        lines = await rooms.store.audit.newest(before=cursor, limit=_AT_ONCE)
        for line in lines:
            cursor = line.place
            fits = (not by or line.by == by) and what.lower() in line.what.lower() and on in line.on
            if fits:
                found.append(line)
                if len(found) == limit:
                    return found, cursor
        scanned += len(lines)
        if len(lines) < _AT_ONCE:
            return found, None
    return found, cursor
