"""Numbers at a glance, for dashboards."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.http.sessions import SessionLook
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Wanted
from wa_orchestrator.rooms import Rooms


def dashboard_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["dashboard"])
    store = rooms.store
    slots = rooms.settings.max_sessions_per_proxy

    @router.get("/dashboard/stats", summary="Sessions, messages and proxies in numbers")
    async def stats() -> dict[str, Any]:
        sessions, proxies, messages = await asyncio.gather(
            store.sessions.all(), store.proxies.all(), store.messages.counts()
        )
        phones = {s.phone for s in sessions if s.phone}
        sizes = await asyncio.gather(*(store.lanes.sizes(phone) for phone in phones))
        healthy = [p for p in proxies if p.status is ProxyStatus.ACTIVE and not p.draining]
        return {
            "sessions": {"total": len(sessions), **Counter(s.status.value for s in sessions)},
            "messages": {
                **messages,
                "queued": sum(waiting for waiting, _ in sizes) + messages["unrouted"],
                "underWay": sum(under_way for _, under_way in sizes),
            },
            "proxies": {
                "total": len(proxies),
                **Counter(p.status.value for p in proxies),
                "freeSlots": sum(max(0, slots - len(p.sessions)) for p in healthy),
            },
        }

    @router.get("/dashboard/sessions", summary="All sessions for a dashboard")
    async def sessions(caller: CallerHere) -> dict[str, Any]:
        look = SessionLook(rooms)
        found = [s for s in await store.sessions.all() if s.wanted is not Wanted.DELETED and caller.sees(s.session_id)]
        return {"sessions": list(await asyncio.gather(*(look.view(s) for s in found)))}

    return router
