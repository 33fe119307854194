"""Probes each proxy when it is due; bad ones come back by themselves."""

from __future__ import annotations

import asyncio
import time

import structlog

from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import OrchestratorError, StoreUnavailable
from wa_orchestrator.proxies.pool import ProxyPool
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

_LOOK_EVERY_S = 1.0
_STORE_AWAY_S = 15.0  # a check whose result cannot be written is due again at once: proxies are not probed for that
_AT_ONCE = 20
_MOST = 500  # of one look; the rest comes with the next


class ProxyHealth:
    def __init__(self, *, store: Store, pool: ProxyPool, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._pool = pool
        self._settings = settings
        self._clock = clock
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._not_before = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        await repeat(self.run_once, stop, every_s=_LOOK_EVERY_S, name="proxy_health")

    async def run_once(self) -> None:
        if time.monotonic() < self._not_before:
            return
        due = await self._store.proxies.due(most=_MOST)
        if away := [e for e in await asyncio.gather(*(self._check(proxy_id) for proxy_id in due)) if e]:
            self._not_before = time.monotonic() + _STORE_AWAY_S
            raise away[0]  # one line for all of them
        if due:
            await self._pool.go_on_draining()

    async def _check(self, proxy_id: str) -> StoreUnavailable | None:
        async with self._slots:
            try:
                await self._pool.probe(proxy_id, bad_after=self._settings.proxy_bad_after)
            except StoreUnavailable as error:
                return error
            except OrchestratorError as error:
                log.warning("proxy_check_failed", proxy_id=proxy_id, code=error.code)
        return None
