"""What time alone brings about: leases that ran out, retries that are due, messages that expired."""

from __future__ import annotations

import asyncio

import structlog

from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

_EVERY_S = 0.5
_FORGET_EVERY_ROUNDS = 7200  # an hour


class MessageHousekeeping:
    def __init__(self, *, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._round = 0

    async def run(self, stop: asyncio.Event) -> None:
        await repeat(self.run_once, stop, every_s=_EVERY_S, name="message_housekeeping")

    async def run_once(self) -> None:
        requeued, expired, _ = await asyncio.gather(
            self._store.outbox.requeue_expired(),
            self._store.messages.expire_due(),
            self._store.outbox.wake_retries(),
        )
        if requeued:
            log.warning("leases_ended", messages=requeued)
        if expired:
            log.info("messages_expired", messages=expired)
        if self._round % _FORGET_EVERY_ROUNDS == 0:
            keep_ms = self._settings.message_keep_days * 86_400_000
            await self._store.messages.forget_old(before_ms=self._clock.now_ms() - keep_ms)
        self._round += 1
