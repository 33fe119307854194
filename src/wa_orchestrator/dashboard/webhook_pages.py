"""The pages with webhooks: how each does, and one's dead letters."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from wa_orchestrator.dashboard.guard import GuardedPages
from wa_orchestrator.dashboard.people import Person
from wa_orchestrator.errors import WebhookNotFound
from wa_orchestrator.events.targets import shown_url
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.rooms import Rooms

_LETTERS = 100


def add_webhook_pages(pages: GuardedPages, rooms: Rooms) -> None:
    async def table() -> dict[str, Any]:
        last = await rooms.store.journal.last_number()
        return {"webhooks": [_shown(one, last) for one in await rooms.store.webhooks.all()]}

    @pages.page("/webhooks", "webhooks.html")
    async def webhooks(_request: Request, _: Person) -> dict[str, Any]:
        return {**await table(), "event_number": await rooms.store.journal.last_number()}

    @pages.part("/parts/webhooks", "parts/webhooks.html")
    async def rows(_request: Request, _: Person) -> dict[str, Any]:
        return await table()

    async def one(request: Request) -> dict[str, Any]:
        webhook_id = request.path_params["webhook_id"][:64]
        webhook = await rooms.store.webhooks.find(webhook_id)
        if webhook is None:
            raise WebhookNotFound
        letters = await rooms.store.webhooks.dead(webhook_id, before=None, limit=_LETTERS)
        parked = await rooms.store.webhooks.parked(webhook_id)
        return {
            "hook": _shown(webhook, await rooms.store.journal.last_number()),
            "letters": [(letter, letter.entry()) for letter in letters],
            "parked": sorted(parked.items()),
        }

    @pages.page("/webhooks/{webhook_id}", "webhook.html")
    async def webhook_page(request: Request, _: Person) -> dict[str, Any]:
        return {**await one(request), "event_number": await rooms.store.journal.last_number()}

    @pages.part("/parts/webhook/{webhook_id}", "parts/webhook.html")
    async def webhook_part(request: Request, _: Person) -> dict[str, Any]:
        return await one(request)


def _shown(webhook: Webhook, last: int) -> dict[str, Any]:
    """Never the secret, the address's credentials or the values of headers."""
    status = "disabled" if not webhook.enabled else "failing" if webhook.failures or webhook.waiting else "active"
    return {
        "id": webhook.webhook_id,
        "name": webhook.label or shown_url(webhook.url),
        "url": shown_url(webhook.url),
        "status": status,
        "tone": {"disabled": "off", "failing": "bad", "active": "good"}[status],
        "types": webhook.types,
        "sessions": webhook.sessions,
        "enabled": webhook.enabled,
        "reason": webhook.disabled_reason,
        "error": webhook.last_error if status == "failing" else "",
        "since": webhook.failing_since or None,
        "next_try": webhook.next_try or None,
        "delivered": webhook.delivered,
        "last_delivered_at": webhook.last_delivered_at or None,
        "behind": max(0, last - webhook.cursor) if webhook.enabled else 0,
        "waiting": webhook.waiting,
        "dead": webhook.dead_now,
        "dropped": webhook.dead_dropped,
        "format": webhook.format,
    }
