"""Probes each proxy when it is due; bad ones come back by themselves."""

from __future__ import annotations

import asyncio

import structlog

from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.proxies.pool import ProxyPool
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

_LOOK_EVERY_S = 1.0
_AT_ONCE = 20
_MOST = 500  # of one look; the rest comes with the next


class ProxyHealth:
    def __init__(self, *, store: Store, pool: ProxyPool, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._pool = pool
        self._settings = settings
        self._clock = clock
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self, stop: asyncio.Event) -> None:
        await repeat(self.run_once, stop, every_s=_LOOK_EVERY_S, name="proxy_health")

    async def run_once(self) -> None:
        due = await self._store.proxies.due(most=_MOST)
        await asyncio.gather(*(self._check(proxy_id) for proxy_id in due))
        if due:
            await self._pool.go_on_draining()

    async def _check(self, proxy_id: str) -> None:
        async with self._slots:
            try:
                await self._pool.probe(proxy_id, bad_after=self._settings.proxy_bad_after)
            except OrchestratorError as error:
                log.warning("proxy_check_failed", proxy_id=proxy_id, code=error.code)
