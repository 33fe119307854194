"""Health, readiness and numbers: what machines ask that look after this one."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import Depends, Request, Response

from wa_orchestrator import __version__
from wa_orchestrator.errors import StoreUnavailable, Unauthorized
from wa_orchestrator.http.asgi import header_map
from wa_orchestrator.http.auth import given_key
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.metrics.exposition import CONTENT_TYPE, Exposition
from wa_orchestrator.rooms import GatewayRooms
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

_STORE_ANSWER_S = 2.0
Guard = Callable[..., Awaitable[None]]


async def health(metrics: Exposition) -> dict[str, Any]:
    """200 as long as the process serves; `status` says how well. Needs no key, so it names nobody and costs little."""
    try:
        numbers = await metrics.numbers.get()
    except StoreUnavailable:
        return {"status": "degraded", "version": __version__, "store": "away"}
    return {
        "status": "ok",
        "version": __version__,
        "store": "ok",
        "sessions": {"total": sum(numbers.sessions.values()), **numbers.sessions},
        "proxies": {"total": sum(numbers.proxies.values()), **numbers.proxies},
        "orchestrators": {"alive": numbers.orchestrators, "leading": numbers.leaders},
    }


async def store_answers(store: Store) -> bool:
    try:
        async with asyncio.timeout(_STORE_ANSWER_S):
            await store.ping()
    except (StoreUnavailable, TimeoutError):
        return False
    return True


def may_scrape(settings: Settings, headers: dict[str, str]) -> bool:
    """METRICS_OPEN, or METRICS_TOKEN as the bearer: a scraper needs no key that could do more than read numbers."""
    if settings.metrics_open:
        return True
    return bool(settings.metrics_token) and _same(given_key(headers), settings.metrics_token)


def _same(given: str, secret: str) -> bool:
    """In a time that tells nothing about how far they agree."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), secret.encode())


def system_router(rooms: GatewayRooms, guard: Guard) -> Routes:
    router = Routes(tags=["system"])

    @router.get("/health", summary="Is the server alive, and how are its parts?")
    async def its_health() -> dict[str, Any]:
        """200 as long as the process serves; `status` says how well. Needs no key, so it names nobody."""
        return await health(rooms.metrics)

    @router.get("/ready", summary="Can the server take work?", responses={503: {"description": "Not now"}})
    async def ready(response: Response) -> dict[str, bool]:
        answers = await store_answers(rooms.store)
        response.status_code = 200 if answers else 503
        return {"ready": answers}

    async def scraper_or_key(request: Request) -> None:
        if not may_scrape(rooms.settings, header_map(request.scope)):
            await guard(request)

    @router.get("/metrics", dependencies=[Depends(scraper_or_key)], response_class=Response,
                summary="Numbers for Prometheus",
                responses={200: {"description": "Text format", "content": {"text/plain": {}}}})  # fmt: skip
    async def metrics() -> Response:
        """With an API key, with METRICS_TOKEN as bearer, or open (METRICS_OPEN)."""
        return Response(await rooms.metrics.text(), headers={"content-type": CONTENT_TYPE})

    return router


def check_scraper(settings: Settings, headers: dict[str, str]) -> None:
    """For a process without an API: the token, or the installation's key where it is known."""
    if may_scrape(settings, headers):
        return
    if not settings.api_key or not _same(given_key(headers), settings.api_key):
        raise Unauthorized("Send METRICS_TOKEN or the API key as bearer, or set METRICS_OPEN=true.")
