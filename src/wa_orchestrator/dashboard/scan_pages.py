"""The pages of a scan link: open to whoever has the link, for one session, as long as it lasts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse

from wa_orchestrator.dashboard.rendering import Rendering
from wa_orchestrator.dashboard.scanning import ScanLinks, scan_state, step_of
from wa_orchestrator.errors import NotFound, QrNotReady, TooManyRequests
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.qr_image import qr_svg
from wa_orchestrator.http.session_orders import ask_for_pairing_code
from wa_orchestrator.http.views import PairingBody, PairingView
from wa_orchestrator.rooms import Rooms


def scan_link_router(rooms: Rooms, links: ScanLinks, rendering: Rendering) -> Routes:
    router = Routes(include_in_schema=False)

    @router.get("/scan/{token}")
    async def show(request: Request, token: str) -> Response:
        try:
            session = await links.session_of(token)
        except NotFound:
            return rendering.page(request, "scan_link.html", person=None, status=404, base="", state=None, expected="")
        state = await scan_state(rooms, session, rendering.words(request))
        expected = session.expected_phone
        return rendering.page(
            request, "scan_link.html", person=None, base=f"/scan/{token}", state=state, expected=expected
        )

    @router.get("/scan/{token}/state")
    async def state(request: Request, token: str) -> dict[str, Any]:
        return await scan_state(rooms, await links.session_of(token), rendering.words(request))

    @router.get("/scan/{token}/qr.svg")
    async def code(token: str) -> Response:
        session = await links.session_of(token)
        found = await rooms.store.sessions.qr(session.session_id)
        if found is None or step_of(session, has_code=True) != "scan":
            raise QrNotReady
        return Response(qr_svg(found["qr"]), media_type="image/svg+xml")

    @router.post("/scan/{token}/pairing-code")
    async def pairing_code(token: str, body: PairingBody) -> PairingView:
        session = await links.session_of(token)
        if wait_s := await rooms.store.users.count_pairing(session.session_id):
            raise TooManyRequests(retry_after_s=wait_s)
        return await ask_for_pairing_code(rooms, session, body.phone)

    @router.get("/scan/{token}/stream")
    async def stream(token: str) -> StreamingResponse:
        """Says only that something changed; what, the page asks with its link."""
        session = await links.session_of(token)
        place = await rooms.live.place(None)
        return StreamingResponse(_changes(rooms, session.session_id, place), media_type="text/event-stream")

    return router


async def _changes(rooms: Rooms, session_id: str, after: int) -> AsyncIterator[bytes]:
    yield b"data: {}\n\n"
    async for entry in rooms.live.follow(after=after, session_id=session_id):
        yield b": still here\n\n" if entry is None else b"id: %d\ndata: {}\n\n" % entry.number
