"""Looks over all running workers again and again; restarts what the policy says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import structlog

from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import OrchestratorError, StoreUnavailable
from wa_orchestrator.model.session import Session, Watched
from wa_orchestrator.runners.port import Runner
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.watchdog.hearing import Hearing
from wa_orchestrator.watchdog.policy import needs_restart

log = structlog.get_logger()

_AT_ONCE = 8


class Watchdog:
    def __init__(
        self,
        *,
        store: Store,
        runner: Runner,
        lifecycle: Lifecycle,
        settings: Settings,
        clock: Clock,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._runner = runner
        self._lifecycle = lifecycle
        self._settings = settings
        self._clock = clock
        self._monotonic = monotonic
        self._hearing = Hearing(every_s=settings.watchdog_interval_ms / 1000)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def run(self, stop: asyncio.Event) -> None:
        every_s = self._settings.watchdog_interval_ms / 1000
        await repeat(self.run_once, stop, every_s=every_s, name="watchdog")

    async def run_once(self) -> list[str]:
        """Restarts silent and deaf workers; returns their sessions."""
        running = {worker.session_id for worker in await self._runner.list_running()}
        try:
            watched = await self._store.sessions.watched(running)
        except StoreUnavailable:
            self._hearing.lost(now_ms=self._clock.now_ms())
            raise
        self._hearing.look(now_ms=self._clock.now_ms(), monotonic_s=self._monotonic())
        suspects = [w.session.session_id for w in watched if self._reason(w)]
        restarted = await asyncio.gather(*(self._restart(session_id) for session_id in suspects))
        return [session_id for session_id, done in zip(suspects, restarted, strict=True) if done]

    def _reason(self, watched: Watched) -> str | None:
        return needs_restart(
            watched,
            now_ms=self._clock.now_ms(),
            ping_timeout_ms=self._settings.ping_timeout_ms,
            hearing_since_ms=self._hearing.since_ms,
        )

    async def _restart(self, session_id: str) -> bool:
        async with self._slots:
            # stopping a hanging worker takes seconds: what was true then is looked at again now
            for watched in await self._store.sessions.watched([session_id]):
                if reason := self._reason(watched):
                    return await self._replace(watched.session, reason)
        return False

    async def _replace(self, session: Session, reason: str) -> bool:
        log.warning("worker_unhealthy", session_id=session.session_id, reason=reason)
        try:
            if await self._store.sessions.mark_unhealthy(session.session_id, session.run_order, reason=reason):
                await self._lifecycle.ensure(session.session_id)
                return True
        except OrchestratorError as error:
            if isinstance(error, StoreUnavailable):
                self._hearing.lost(now_ms=self._clock.now_ms())
            log.warning("unhealthy_worker_not_restarted", session_id=session.session_id, code=error.code)
        return False
