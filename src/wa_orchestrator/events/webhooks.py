"""What clients and operators do with webhooks: make, change, try, drive again. delivery.py does the rest."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.events.catalogue import EVENT_TYPES
from wa_orchestrator.events.envelopes import FORMATS, NEEDS_SESSION
from wa_orchestrator.events.facts import SessionFacts
from wa_orchestrator.events.sender import Answer, WebhookSender
from wa_orchestrator.events.targets import Guard, read_url
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store import Store
from wa_orchestrator.store.journal import JournalEntry

TEST_EVENT = "webhook.test"
MOST_REDRIVEN = 1000
_HEADER_NAME = re.compile(r"^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")
# what the client sets itself, or what would change where the request ends
_OWN_HEADERS = {"host", "content-length", "transfer-encoding", "connection", "content-type", "upgrade", "te", "trailer"}


class Webhooks:
    def __init__(self, *, store: Store, guard: Guard, sender: WebhookSender, facts: SessionFacts, clock: Clock) -> None:
        self._store = store
        self._guard = guard
        self._sender = sender
        self._facts = facts
        self._clock = clock
        self.changed: Callable[[], None] = lambda: None  # where events are delivered in this process: look now

    async def create(self, webhook: Webhook, *, after: int | None = None) -> Webhook:
        """Checked and stored; a secret is made where none is given."""
        check(webhook)
        await self._guard.check(webhook.url)
        await self._store.webhooks.create(webhook, after=after)
        self.changed()
        return await self._store.webhooks.get(webhook.webhook_id)

    async def change(self, webhook_id: str, fields: Mapping[str, Any]) -> Webhook:
        """`fields`: names of `Webhook`; what is not named stays."""
        before = await self._store.webhooks.get(webhook_id)
        after = replace(before, **fields)
        check(after)
        if "url" in fields:
            await self._guard.check(after.url)
        await self._store.webhooks.change(webhook_id, fields)
        self.changed()
        return await self._store.webhooks.get(webhook_id)

    async def delete(self, webhook_id: str) -> bool:
        deleted = await self._store.webhooks.delete(webhook_id)
        self.changed()
        return deleted

    async def test(self, webhook_id: str) -> Answer:
        """One event made up for this purpose, posted now; it has no number and is not repeated."""
        webhook = await self._store.webhooks.get(webhook_id)
        session_id = webhook.sessions[0] if webhook.sessions else ""
        entry = JournalEntry(
            number=0, type=TEST_EVENT, session_id=session_id, at=self._clock.now_ms(), data={"webhookId": webhook_id}
        )
        asks = webhook.format in NEEDS_SESSION and session_id
        session = await self._facts.of(session_id) if asks else {}
        outgoing = FORMATS[webhook.format](entry, webhook, session, self._clock.now_ms())
        if outgoing is None:
            raise InvalidBody(f"The format {webhook.format} has no test event.", details={"field": "format"})
        return await self._sender.post(webhook.url, outgoing)

    async def redrive(self, webhook_id: str, numbers: Sequence[int] | None, *, drop: bool = False) -> tuple[int, int]:
        """How many dead letters were taken off the list (all without `numbers`), how many are left."""
        moved = 0
        while True:
            now, left = await self._store.webhooks.redrive(webhook_id, numbers, drop=drop, limit=MOST_REDRIVEN)
            moved += now
            if numbers is not None or now == 0 or left == 0:
                break
        if moved:
            self.changed()
        return moved, left


def new_id() -> str:
    return f"wh_{secrets.token_hex(8)}"


def new_secret() -> str:
    return f"whsec_{secrets.token_urlsafe(32)}"


def check(webhook: Webhook) -> None:
    """Raises InvalidWebhookUrl or InvalidBody with the field that is wrong."""
    read_url(webhook.url)
    if webhook.format not in FORMATS:
        raise InvalidBody(f"format is one of {', '.join(sorted(FORMATS))}.", details={"field": "format"})
    for kind in webhook.types:
        known = any(name.startswith(kind[:-1]) for name in EVENT_TYPES) if kind.endswith("*") else kind in EVENT_TYPES
        if not known:
            raise InvalidBody(
                f"There is no event type {kind[:60]}. GET /api/v1/events/types lists them.", details={"field": "types"}
            )
    if "@" in urlsplit(webhook.url).netloc and any(name.lower() == "authorization" for name in webhook.headers):
        raise InvalidBody(
            "headers: Authorization, or credentials in the address; not both.", details={"field": "headers"}
        )
    for name, value in webhook.headers.items():
        bad_value = any(not c.isprintable() for c in value) or not value.isascii()
        if not _HEADER_NAME.match(name) or name.lower() in _OWN_HEADERS or bad_value:
            raise InvalidBody("headers: a name or value that cannot be sent.", details={"field": "headers"})
        if name.lower().startswith("x-webhook-"):
            raise InvalidBody("headers: X-Webhook-… are ours.", details={"field": "headers"})
