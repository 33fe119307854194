"""Notes once a minute how many sessions are connected, for the chart."""

from __future__ import annotations

import asyncio

import structlog

from wa_orchestrator.background import wait_or_stop
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store

log = structlog.get_logger()

_EVERY_S = 20.0  # several looks a minute: the last one stays, and a missed one leaves no gap


class SessionCounter:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, stop: asyncio.Event) -> None:
        while True:
            try:
                await self.run_once()
            except StoreUnavailable:
                log.debug("session_count_waits_for_store")
            if await wait_or_stop(stop, _EVERY_S):
                return

    async def run_once(self) -> None:
        sessions = (await self._store.numbers.read()).sessions
        await self._store.stats.note_sessions(connected=sessions.get(Status.CONNECTED, 0), total=sum(sessions.values()))
