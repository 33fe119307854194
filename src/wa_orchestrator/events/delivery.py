"""Keeps a courier per webhook at work, at the one orchestrator that leads, and shows each what is new."""

from __future__ import annotations

import asyncio

import structlog

from wa_orchestrator.background import unless_stopped, wait_or_stop
from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.events.courier import Courier, Round
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store.journal import JournalEntry

log = structlog.get_logger()

_LOOK_S = 1.0
_LOOK_AT_ALL_S = 60.0  # should a change have been missed


class Delivery:
    def __init__(self, shared: Round) -> None:
        self._shared = shared
        self._couriers: dict[str, tuple[Courier, asyncio.Task[None]]] = {}
        self._by_session: dict[str, list[Courier]] = {}
        self._everywhere: list[Courier] = []
        self._last = self._highest = 0
        self._seen = -1
        self._looked_at = 0.0
        self._wake = asyncio.Event()

    def poke(self) -> None:
        """Something was changed here: look now instead of in a moment."""
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        self._seen = -1
        await unless_stopped(stop, self._shared.live.begun())
        self._last = self._highest = self._shared.live.position
        with self._shared.live.tap(self._show):
            try:
                while not stop.is_set():
                    try:
                        await self.look()
                    except OrchestratorError as error:
                        log.info("webhooks_wait_for_store", code=error.code)
                    await self._pause(stop)
            finally:
                await self._end([one for one, _ in self._couriers.values()])

    async def _pause(self, stop: asyncio.Event) -> None:
        waits = [asyncio.create_task(wait_or_stop(stop, _LOOK_S)), asyncio.create_task(self._wake.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        self._wake.clear()

    async def look(self) -> None:
        """Compares the webhooks with the couriers at work."""
        if self._shared.live.position < self._highest:
            # numbers began anew; each finds that out for itself
            for courier, _ in self._couriers.values():
                courier.fall_behind(0)
        self._highest = self._shared.live.position
        now = asyncio.get_running_loop().time()
        changes = await self._shared.store.webhooks.changes()
        ended = any(task.done() for _, task in self._couriers.values())
        if changes == self._seen and not ended and now - self._looked_at < _LOOK_AT_ALL_S:
            return
        wanted = {one.webhook_id: one for one in await self._shared.store.webhooks.all() if one.enabled}
        self._seen, self._looked_at = changes, now
        await self._end([one for key, (one, task) in self._couriers.items() if key not in wanted or task.done()])
        for webhook in wanted.values():
            self._begin_or_change(webhook)
        self._sort()

    def _begin_or_change(self, webhook: Webhook) -> None:
        at_work = self._couriers.get(webhook.webhook_id)
        if at_work is None:
            courier = Courier(webhook, self._shared)
            task = asyncio.create_task(courier.run(), name=f"webhook {webhook.webhook_id}")
            self._couriers[webhook.webhook_id] = (courier, task)
        elif at_work[0].webhook.version != webhook.version:
            at_work[0].change(webhook)

    async def _end(self, couriers: list[Courier]) -> None:
        for courier in couriers:
            courier.stop()
        tasks = [self._couriers.pop(courier.webhook.webhook_id)[1] for courier in couriers]
        for done in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(done, Exception):
                log.error("webhook_courier_failed", error=repr(done)[:200])

    def _sort(self) -> None:
        """Who is to be shown an entry: a thousand webhooks for one session each must not all look at all of them."""
        self._by_session, self._everywhere = {}, []
        for courier, _ in self._couriers.values():
            for session in courier.webhook.sessions:
                self._by_session.setdefault(session, []).append(courier)
            if not courier.webhook.sessions:
                self._everywhere.append(courier)

    def _show(self, entry: JournalEntry) -> None:
        if entry.number != self._last + 1:
            for courier, _ in self._couriers.values():
                courier.fall_behind(min(self._last, entry.number - 1))
        self._last = entry.number
        for courier in self._everywhere:
            courier.offer(entry)
        for courier in self._by_session.get(entry.session_id, ()):
            courier.offer(entry)
