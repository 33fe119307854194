"""Sessions over HTTP: make one, look at them, get the code to scan."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import Body, Query, Response

from wa_orchestrator.clock import iso
from wa_orchestrator.errors import (
    AlreadyConnected,
    InvalidProxy,
    QrNotReady,
    SessionNotFound,
    SessionNotRunning,
)
from wa_orchestrator.http import views
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.qr_image import qr_data_url, qr_png, qr_svg
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.model.phone import checked_phone
from wa_orchestrator.model.proxy import ProxyAddress, parse_proxy
from wa_orchestrator.model.session import Session, Status, Wanted, checked_session_id
from wa_orchestrator.model.trust import trust_of
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.sessions.lifecycle import Provisioned

_CURSOR = r"^([0-9]{1,15}\.[A-Za-z0-9_-]{1,64})?$"
_PICTURES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {}, "image/svg+xml": {}, "text/plain": {}}, "description": "The code"}
}


class SessionLook:
    """Finds a session and shows it."""

    def __init__(self, rooms: Rooms) -> None:
        self._store = rooms.store
        self._clock = rooms.clock

    async def known(self, session_id: str) -> Session:
        session = await self._store.sessions.get(checked_session_id(session_id))
        if session is None or session.wanted is Wanted.DELETED:
            raise SessionNotFound
        return session

    async def view(self, session: Session) -> views.SessionView:
        now = self._clock.now_ms()
        proxy, since, lane, (waiting, under_way) = await asyncio.gather(
            self._store.proxies.get(session.proxy_id),
            self._store.sessions.first_connected_at(session.phone),
            self._store.lanes.get(session.phone),
            self._store.lanes.sizes(session.phone),
        )
        trust = trust_of(since, now)
        today = _today(lane, now=now, limit=trust.daily_limit, waiting=waiting, under_way=under_way)
        return views.session_view(session, proxy, trust, since, today)


def sessions_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["sessions"])
    store = rooms.store

    look = SessionLook(rooms)

    @router.post("/sessions/provision", status_code=201, summary="Make a session and start its worker")
    async def provision(body: Annotated[views.ProvisionBody | None, Body()] = None) -> views.ProvisionedView:
        wanted = body or views.ProvisionBody()
        if wanted.from_profile:
            return _provisioned(await rooms.profiles.provision_next())
        proxy_id, address = (
            _named_proxy(wanted.proxy_override, field="proxyOverride")
            if wanted.proxy is None
            else _named_proxy(wanted.proxy, field="proxy")
        )
        made = await rooms.lifecycle.provision(
            session_id=checked_session_id(wanted.session_id) if wanted.session_id is not None else "",
            phone=checked_phone(wanted.phone) if wanted.phone is not None else "",
            proxy_id=proxy_id,
            proxy_address=address,
            allow_additional=wanted.allow_additional,
            rebind=wanted.rebind,
            label=wanted.label or "",
            metadata=wanted.metadata,
        )
        return _provisioned(made)

    @router.get("/sessions", summary="List sessions")
    async def list_sessions(
        caller: CallerHere,
        status: Status | None = None,
        search: Annotated[str, Query(max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        cursor: Annotated[
            str, Query(max_length=80, pattern=_CURSOR, description="`nextCursor` of the page before")
        ] = "",
    ) -> views.SessionList:
        found = [
            s
            for s in await store.sessions.all()
            if s.wanted is not Wanted.DELETED
            and caller.sees(s.session_id)
            and (status is None or s.status is status)
            and _matches(s, search)
        ]
        # by place in the order, not by the session itself: it may have been deleted since
        rest = [s for s in found if _place(s) > _read_cursor(cursor)] if cursor else found
        page = rest[:limit]
        return views.SessionList(
            sessions=list(await asyncio.gather(*(look.view(s) for s in page))),
            total=len(found),
            next_cursor="{}.{}".format(*_place(page[-1])) if len(rest) > limit else None,
        )

    @router.get("/sessions/{session_id}", summary="Look at a session")
    @router.get("/sessions/{session_id}/status", summary="Look at a session", operation_id="session_status")
    async def get_session(session_id: str) -> views.SessionView:
        return await look.view(await look.known(session_id))

    @router.get(
        "/sessions/{session_id}/qr", response_model=views.QrView, responses=_PICTURES, summary="The code to scan"
    )
    async def get_qr(session_id: str, format: Literal["json", "png", "svg", "raw"] = "json") -> Any:  # noqa: A002
        """The code to scan. It changes every 20 to 60 seconds."""
        session = await look.known(session_id)
        if session.status is Status.CONNECTED:
            raise AlreadyConnected
        code = await store.sessions.qr(session_id)
        if code is None:
            if session.wanted is not Wanted.RUNNING:
                raise SessionNotRunning
            raise QrNotReady
        text: str = code["qr"]
        match format:
            case "png":
                return Response(qr_png(text), media_type="image/png")
            case "svg":
                return Response(qr_svg(text), media_type="image/svg+xml")
            case "raw":
                return Response(text, media_type="text/plain")
        expires = datetime.fromtimestamp(code["expiresAt"] / 1000, UTC).isoformat(timespec="milliseconds")
        return views.QrView(qr=text, image=qr_data_url(text), expires_at=expires)

    @router.get("/sessions/{session_id}/events", summary="A session's story, newest first")
    async def timeline(session_id: str, limit: Annotated[int, Query(ge=1, le=500)] = 100) -> views.EventList:
        entries = await store.journal.timeline(checked_session_id(session_id), limit=limit)
        if not entries:
            await look.known(session_id)
        return views.EventList(
            events=[
                views.EventView(
                    number=e.number, type=e.type, session_id=session_id, timestamp=iso(e.at) or "", data=e.data
                )
                for e in entries
            ]
        )

    return router


def _provisioned(made: Provisioned) -> views.ProvisionedView:
    return views.ProvisionedView(
        session_id=made.session.session_id,
        status=Status.PENDING,  # as it was made; a quick worker may be further by now
        proxy=views.proxy_ref(made.proxy),
        created_at=iso(made.session.created_at) or "",
    )


def _today(lane: dict[str, str], *, now: int, limit: int, waiting: int, under_way: int) -> views.TodayView:
    """A lane's counts; before its first plan the table's limit holds."""
    current = float(lane.get("dayEndsAt", 0)) > now
    planned = "dayKey" in lane
    blocked = float(lane.get("blockedUntil", 0))
    return views.TodayView(
        sent=int(lane.get("dayCount", 0)) if current else 0,
        limit=(int(lane["daily"]) if "daily" in lane else None) if planned else limit,
        waiting=waiting,
        under_way=under_way,
        slowed="slow" in lane,
        blocked_until=iso(blocked) if blocked > now else None,
        block_reason=lane.get("blockReason") if blocked > now else None,
    )


def _named_proxy(text: str | None, *, field: str) -> tuple[str, ProxyAddress | None]:
    """A proxy may be named by its id or by its full address."""
    if text is None:
        return "", None
    if text.startswith("px_"):
        return text, None
    address = proxy_in(text, field=field)
    return address.proxy_id, address


def proxy_in(text: str, *, field: str) -> ProxyAddress:
    """The address in a field of a body; what is wrong with it is told with the field's name."""
    try:
        return parse_proxy(text)
    except InvalidProxy as error:
        raise InvalidProxy(error.message, details={"field": field}) from None


def _place(session: Session) -> tuple[int, str]:
    return session.created_at, session.session_id


def _read_cursor(cursor: str) -> tuple[int, str]:
    created, _, session_id = cursor.partition(".")
    return int(created), session_id


def _matches(session: Session, search: str) -> bool:
    words = search.lower().split()
    text = f"{session.session_id} {session.phone} {session.label} {session.reason}".lower()
    return all(word in text for word in words)
