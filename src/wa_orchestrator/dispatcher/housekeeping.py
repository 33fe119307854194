"""What time alone brings about: leases that ran out, retries that are due, messages that expired, a clock set back."""

from __future__ import annotations

import asyncio
import time

import structlog

from wa_orchestrator.background import SameTrouble, repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

_EVERY_S = 0.5
_SET_BACK_EVERY_S = 10.0  # two servers whose clocks differ would put each other right without a pause
_FORGET_EVERY_ROUNDS = 7200  # an hour


class MessageHousekeeping:
    def __init__(self, *, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._round = 0
        self._next_set_back = 0.0
        self._set_back = SameTrouble()

    async def run(self, stop: asyncio.Event) -> None:
        await repeat(self.run_once, stop, every_s=_EVERY_S, name="message_housekeeping")

    async def run_once(self) -> None:
        await self._look_at_the_clock()
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
            audit_ms = self._settings.audit_keep_days * 86_400_000
            await self._store.audit.forget(before_ms=self._clock.now_ms() - audit_ms)
        self._round += 1

    async def _look_at_the_clock(self) -> None:
        back_ms = await self._store.moments.clock_went_back_ms()
        if not back_ms or time.monotonic() < self._next_set_back:
            return
        self._next_set_back = time.monotonic() + _SET_BACK_EVERY_S
        if await self._store.moments.set_back(back_ms) and (times := self._set_back.again()):
            log.warning("clock_set_back", by_s=round(back_ms / 1000), times=times)
