"""Several orchestrators, one leader: it alone starts and stops workers and runs the loops that decide about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from wa_orchestrator.background import wait_or_stop
from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.store import Store

log = structlog.get_logger()

# Taken over within the lease's time plus one round: 9 + 2 s, well under the 15 s that are promised.
LEASE_MS = 9000
_RENEW_S = 2.0
_ANSWER_S = 2.0
# A leader that cannot reach the store stops before its lease can be taken by another: it asks every two seconds, waits
# two for each answer and looks after each, so at the latest eight seconds after the last renewal.
_STEP_DOWN_S = LEASE_MS / 1000 - 2 * _RENEW_S


class Leadership:
    """`on_gain` and `on_loss` are awaited in turn, never at the same time."""

    def __init__(
        self,
        *,
        store: Store,
        owner: str,
        on_gain: Callable[[], Awaitable[None]],
        on_loss: Callable[[], Awaitable[None]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._store = store
        self._owner = owner
        self._on_gain = on_gain
        self._on_loss = on_loss
        self._leads = False
        self._confirmed = 0.0
        self.others = 0

    def leads(self) -> bool:
        return self._leads

    async def try_once(self) -> bool:
        """Asks for the lease and settles what follows from the answer."""
        asked = self._monotonic()
        try:
            # a store that hangs must not hold a leader longer than its lease lasts
            async with asyncio.timeout(_ANSWER_S):
                answer = await self._store.leases.hold(self._owner, ttl_ms=LEASE_MS)
        except (OrchestratorError, TimeoutError):
            if self._leads and self._monotonic() - self._confirmed > _STEP_DOWN_S:
                log.warning("leadership_lost", reason="the store does not answer")
                await self._lose()
            return self._leads
        self.others = answer.others
        if answer.held:
            self._confirmed = asked
            if not self._leads:
                self._leads = True
                log.info("leadership_gained")
                await self._on_gain()
        elif self._leads:
            log.warning("leadership_lost", reason="another orchestrator has it")
            await self._lose()
        return self._leads

    async def _lose(self) -> None:
        self._leads = False
        await self._on_loss()

    async def run(self, stop: asyncio.Event) -> None:
        while not await wait_or_stop(stop, _RENEW_S):
            try:
                await self.try_once()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("leadership_round_failed")

    async def close(self) -> None:
        """Ends the loops and lets another take over at once."""
        if self._leads:
            await self._lose()
        try:
            await self._store.leases.give_back(self._owner, ttl_ms=LEASE_MS)
        except OrchestratorError:
            log.info("lease_runs_out_by_itself")
