"""Health, readiness and the front door."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from fastapi import APIRouter, Response

from wa_orchestrator import __version__
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.rooms import GatewayRooms

_STORE_ANSWER_S = 2.0


def system_router(rooms: GatewayRooms) -> APIRouter:
    router = APIRouter(tags=["system"])

    async def store_answers() -> bool:
        try:
            async with asyncio.timeout(_STORE_ANSWER_S):
                await rooms.store.ping()
        except (StoreUnavailable, TimeoutError):
            return False
        return True

    @router.get("/health", summary="Is the server alive, and how are its parts?")
    async def health() -> dict[str, Any]:
        """200 as long as the process serves; `status` says how well. Needs no key, so it names nobody."""
        if not await store_answers():
            return {"status": "degraded", "version": __version__, "store": "away"}
        sessions, proxies = await asyncio.gather(rooms.store.sessions.all(), rooms.store.proxies.all())
        return {
            "status": "ok",
            "version": __version__,
            "store": "ok",
            "sessions": {"total": len(sessions), **Counter(s.status.value for s in sessions)},
            "proxies": {"total": len(proxies), **Counter(p.status.value for p in proxies)},
        }

    @router.get("/ready", summary="Can the server take work?", responses={503: {"description": "Not now"}})
    async def ready(response: Response) -> dict[str, bool]:
        answers = await store_answers()
        response.status_code = 200 if answers else 503
        return {"ready": answers}

    return router
