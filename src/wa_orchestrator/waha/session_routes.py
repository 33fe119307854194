"""WAHA's session calls over HTTP, carried out by the same rooms as our own."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import Body, Query, Request

from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.http.session_orders import log_out
from wa_orchestrator.http.sessions import SessionLook
from wa_orchestrator.model.session import Session, Wanted, checked_session_id
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.waha import bodies
from wa_orchestrator.waha.envelope import me_of
from wa_orchestrator.waha.names import status_of
from wa_orchestrator.waha.sessions import check_proxy_unchanged, facts_of, session_answer, wanted_proxy
from wa_orchestrator.waha.subscriptions import shown_webhooks
from wa_orchestrator.waha.webhooks import SessionWebhooks


class WahaSessions:
    """Shows sessions as WAHA does."""

    def __init__(self, rooms: Rooms) -> None:
        self.rooms = rooms
        self.look = SessionLook(rooms)
        self.webhooks = SessionWebhooks(rooms)

    async def view(self, sessions: list[Session]) -> list[bodies.SessionAnswer]:
        webhooks = await self.webhooks.by_session()
        return [
            bodies.SessionAnswer(
                **session_answer(
                    one,
                    await self.rooms.store.proxies.get(one.proxy_id),
                    shown_webhooks(webhooks.get(one.session_id, [])),
                )
            )
            for one in sessions
        ]

    async def shown(self, session_id: str) -> bodies.SessionAnswer:
        (found,) = await self.view([await self.look.known(session_id)])
        return found


def waha_new_routes(rooms: Rooms) -> Routes:
    """Those that our own API has no address for: served under /api as well."""
    router = Routes(tags=["waha"])
    sessions = WahaSessions(rooms)

    @router.post("/sessions", status_code=201, summary="WAHA: make a session")
    async def create(
        request: Request, caller: CallerHere, body: Annotated[bodies.CreateSession | None, Body()] = None
    ) -> bodies.SessionAnswer:
        wanted = body or bodies.CreateSession()
        config = wanted.config or bodies.Config()
        name = checked_session_id(wanted.name) if wanted.name else ""
        proxy_id, address = wanted_proxy(config.proxy)
        plan = await sessions.webhooks.checked(config.webhooks or [])
        await sessions.webhooks.sweep()
        made = await rooms.lifecycle.provision(
            session_id=name, proxy_id=proxy_id, proxy_address=address, metadata=config.metadata
        )
        session_id = made.session.session_id
        try:
            await sessions.webhooks.put(session_id, plan, by=caller.by, base_url=_reached_by(request))
            if wanted.start is False:
                await rooms.lifecycle.stop(session_id)
        except BaseException:
            # a session that tells nobody, or runs against its maker's wish, is not what was asked for
            await asyncio.shield(rooms.lifecycle.delete(session_id))
            raise
        return await sessions.shown(session_id)

    @router.put("/sessions/{session_id}", summary="WAHA: change metadata and webhooks of a session")
    async def update(
        session_id: str, body: bodies.UpdateSession, request: Request, caller: CallerHere
    ) -> bodies.SessionAnswer:
        """Takes effect at once; the session is not restarted for it."""
        session = await sessions.look.known(session_id)
        config = body.config or bodies.Config()
        check_proxy_unchanged(config.proxy, await rooms.store.proxies.get(session.proxy_id))
        present = shown_webhooks((await sessions.webhooks.by_session()).get(session_id, []), open_secrets=True)
        plan = await sessions.webhooks.checked(config.webhooks or [], present=present)
        await rooms.store.sessions.describe(session_id, metadata=config.metadata or {})
        await sessions.webhooks.put(session_id, plan, by=caller.by, base_url=_reached_by(request))
        return await sessions.shown(session_id)

    @router.get("/sessions/{session_id}/me", summary="WAHA: the account of a session")
    async def me(session_id: str) -> bodies.Me | None:
        found = me_of(facts_of(await sessions.look.known(session_id)))
        return bodies.Me(**found) if found else None

    return router


def _reached_by(request: Request) -> str:
    """The address under which this caller sees us."""
    return f"{request.url.scheme}://{request.url.netloc}"


def waha_same_routes(rooms: Rooms) -> Routes:
    """Those that our own API answers in its own way under /api: WAHA's way only under /waha."""
    router = Routes(tags=["waha"])
    sessions = WahaSessions(rooms)

    @router.get("/sessions", summary="WAHA: list sessions")
    async def list_sessions(
        caller: CallerHere, all_: Annotated[bool, Query(alias="all", description="Stopped ones too")] = False
    ) -> list[bodies.SessionAnswer]:
        theirs = [s for s in await rooms.store.sessions.all() if caller.sees(s.session_id)]
        kept = [s for s in theirs if s.wanted is not Wanted.DELETED and (all_ or status_of(s) != "STOPPED")]
        return await sessions.view(kept)

    @router.get("/sessions/{session_id}", summary="WAHA: look at a session")
    async def get_session(session_id: str) -> bodies.SessionAnswer:
        return await sessions.shown(session_id)

    @router.post("/sessions/{session_id}/start", status_code=201, summary="WAHA: start a session")
    async def start(session_id: str) -> bodies.SessionAnswer:
        await sessions.look.known(session_id)
        await rooms.lifecycle.start(session_id)
        return await sessions.shown(session_id)

    @router.post("/sessions/{session_id}/stop", status_code=201, summary="WAHA: stop a session")
    async def stop(session_id: str) -> bodies.SessionAnswer:
        await sessions.look.known(session_id)
        await rooms.lifecycle.stop(session_id)
        return await sessions.shown(session_id)

    @router.post("/sessions/{session_id}/restart", status_code=201, summary="WAHA: restart a session")
    async def restart(session_id: str) -> bodies.SessionAnswer:
        await sessions.look.known(session_id)
        await rooms.lifecycle.restart(session_id)
        return await sessions.shown(session_id)

    @router.post("/sessions/{session_id}/logout", status_code=201, summary="WAHA: unlink the device")
    async def logout(session_id: str) -> bodies.SessionAnswer:
        await log_out(rooms, await sessions.look.known(session_id))
        return await sessions.shown(session_id)

    @router.delete("/sessions/{session_id}", summary="WAHA: remove a session")
    async def delete(session_id: str) -> bodies.Done:
        """Its webhooks are told the end of it; they go with the next session of this name, or after a while."""
        await rooms.lifecycle.delete(checked_session_id(session_id))
        return bodies.Done()

    return router
