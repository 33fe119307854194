"""The façade put together. Its base address is /waha, where it is whole. What does not meet an address of ours is also
served under /api itself (docs/decisions/0030)."""

from __future__ import annotations

import asyncio
from typing import Any

from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.http.late_routes import Placed, Routes
from wa_orchestrator.rooms import GatewayRooms, Rooms
from wa_orchestrator.waha.account_routes import waha_account_routes
from wa_orchestrator.waha.send_routes import waha_send_router
from wa_orchestrator.waha.session_routes import waha_new_routes, waha_same_routes

_WHOLE, _ALSO = "/waha/api", "/api"
_STORE_ANSWER_S = 2.0


def waha_routers(rooms: Rooms, *, accepts: bool) -> list[Placed]:
    """`accepts`: this server takes messages."""
    found: list[Placed] = [
        (waha_new_routes(rooms), _WHOLE, _ALSO),
        (waha_account_routes(rooms), _WHOLE, _ALSO),
        (waha_same_routes(rooms), _WHOLE),
    ]
    return [*found, *(waha_gateway_routers(rooms) if accepts else [])]


def waha_gateway_routers(rooms: GatewayRooms) -> list[Placed]:
    """What a gateway alone serves of it: sending."""
    return [(waha_send_router(rooms), _WHOLE, _ALSO)]


def waha_health_router(rooms: GatewayRooms) -> Routes:
    """Is anybody there? Without a key that is told at /health and /ready only."""
    router = Routes(include_in_schema=False)

    @router.get("/ping")
    @router.get("/waha/ping")
    async def ping() -> dict[str, str]:
        return {"message": "pong"}

    @router.get("/waha/health")
    async def health() -> dict[str, Any]:
        try:
            async with asyncio.timeout(_STORE_ANSWER_S):
                await rooms.store.ping()
        except TimeoutError:
            raise StoreUnavailable from None
        return {
            "status": "ok",
            "info": {"store": {"status": "up"}},
            "error": {},
            "details": {"store": {"status": "up"}},
        }

    return router
