"""The page with alerts and stock."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import Request

from wa_orchestrator.dashboard.guard import GuardedPages
from wa_orchestrator.dashboard.people import Person
from wa_orchestrator.dashboard.rendering import Rendering
from wa_orchestrator.rooms import Rooms

_SHOWN = 50


def add_alert_pages(pages: GuardedPages, rooms: Rooms, rendering: Rendering) -> None:
    async def now(request: Request) -> dict[str, Any]:
        language = rendering.words(request).language
        standing, recent, channel, stock, profiles = await asyncio.gather(
            rooms.alerts.standing(language=language),
            rooms.alerts.recent(limit=_SHOWN, language=language),
            rooms.alerts.channel(),
            rooms.inventory.stock(),
            rooms.store.inventory.profiles(),
        )
        thresholds = rooms.inventory.thresholds
        low = stock.low(thresholds)
        return {
            "standing": standing,
            "recent": recent,
            "channel": channel,
            "configured": rooms.alerts.configured,
            "stock": [(name, count, thresholds[name], name in low) for name, count in stock.counts().items()],
            "profiles": profiles,
        }

    @pages.page("/alerts", "alerts.html")
    async def alerts(request: Request, _: Person) -> dict[str, Any]:
        return {**await now(request), "event_number": await rooms.store.journal.last_number()}

    @pages.part("/parts/alerts", "parts/alerts.html")
    async def alerts_part(request: Request, _: Person) -> dict[str, Any]:
        return await now(request)
