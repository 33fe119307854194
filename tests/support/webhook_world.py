"""The delivery of webhooks alone, on a real store: started, killed, started again; its clock can jump ahead."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from support.receiver import Receiver
from support.waiting import wait_until
from wa_orchestrator.background import Services
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.events import courier
from wa_orchestrator.events.assembly import WebhookParts, webhook_parts
from wa_orchestrator.events.live import LiveEvents
from wa_orchestrator.events.webhooks import new_id, new_secret
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import Store, StoreRules

DAY_S = 24 * 3600
# as shared.lua notes an event
_NOTE = """local number = redis.call('INCR', KEYS[1])
redis.call('XADD', KEYS[2], string.format('%d-0', number), 'type', ARGV[1], 'session', ARGV[2],
  'at', ARGV[3], 'data', ARGV[4])
return number"""


class JumpingClock(SystemClock):
    """Runs like the machine's own, and ahead of it as told."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self._ahead_ms

    def jump(self, *, seconds: float) -> None:
        self._ahead_ms += int(seconds * 1000)


class WebhookWorld:
    def __init__(self, url: str, clock: JumpingClock, **environ: str) -> None:
        self.clock = clock
        self.settings = load_settings({"WEBHOOK_ALLOW_PRIVATE": "true", "WEBHOOK_TIMEOUT_MS": "1000", **environ})
        self._url = url
        rules = StoreRules(webhook_dead_letters=self.settings.webhook_dead_letters)
        self.store = Store(url, clock, rules)
        self._lives: list[tuple[Store, Services, WebhookParts]] = []

    async def start(self, owner: str = "one", *, leads: bool = True) -> WebhookParts:
        """A process that delivers; it has its own connection to the store, as a process has."""
        if leads:
            await self.store.connection.call("SET", "leader", owner)
        store = Store(self._url, self.clock, StoreRules(webhook_dead_letters=self.settings.webhook_dead_letters))
        live = LiveEvents(store)
        parts = webhook_parts(store=store, live=live, settings=self.settings, clock=self.clock, owner=owner)
        services = Services()
        services.start("live_events", live)
        services.start("webhooks", parts.delivery)
        self._lives.append((store, services, parts))
        return parts

    async def stop(self) -> None:
        """In good order: what is under way ends and is written."""
        store, services, parts = self._lives.pop()
        await services.stop()
        await parts.sender.close()
        await store.close()

    async def kill(self) -> None:
        """As if by -9: nothing more is written, not even what was delivered a moment ago."""
        store = self._lives[-1][0]

        async def gone(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable

        store.webhooks.settle = gone  # type: ignore[method-assign]
        await self.stop()

    async def close(self) -> None:
        while self._lives:
            await self.stop()
        await self.store.close()

    # doing ----------------------------------------------------------------------------------------------------------
    async def note(self, kind: str = "MESSAGE_RECEIVED", session: str = "worker_1", **data: Any) -> int:
        keys = ("events:number", "events:journal")
        call = self.store.connection.call
        return int(await call("EVAL", _NOTE, 2, *keys, kind, session, self.clock.now_ms(), json.dumps(data)))

    async def note_many(self, count: int, *, sessions: int = 1) -> list[int]:
        return list(await asyncio.gather(*(self.note(session=f"worker_{n % sessions}", n=n) for n in range(count))))

    async def hook(self, receiver: Receiver, *, after: int | None = None, **fields: Any) -> str:
        receiver.secret = fields.pop("secret", "") or new_secret()
        # not what the making of webhooks itself notes
        fields.setdefault("types", ("MESSAGE_*", "message.*"))
        fields.setdefault("url", receiver.url)
        webhook = Webhook(webhook_id=new_id(), secret=receiver.secret, **fields)
        await self.store.webhooks.create(webhook, after=after)
        return webhook.webhook_id

    async def webhook(self, webhook_id: str) -> Webhook:
        return await self.store.webhooks.get(webhook_id)

    async def settled(self, webhook_id: str, number: int, *, timeout_s: float = 10.0) -> None:
        """Until everything up to this number is settled in the store."""

        async def there() -> bool:
            found = await self.webhook(webhook_id)
            return found.cursor >= number and found.waiting == 0

        await wait_until(there, timeout_s=timeout_s)


@contextlib.asynccontextmanager
async def webhook_world(url: str, **environ: str) -> AsyncIterator[WebhookWorld]:
    # a jump of the clock is noticed at the next look: do not wait seconds for that
    before, courier._LONGEST_WAIT_MS = courier._LONGEST_WAIT_MS, 50
    world = WebhookWorld(url, JumpingClock(), **environ)
    await world.store.connection.call("FLUSHALL")
    try:
        yield world
    finally:
        await world.close()
        courier._LONGEST_WAIT_MS = before
