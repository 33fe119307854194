"""Serves due senders on a short tick. All state is in the store: any number of these may run, and die at any line."""

from __future__ import annotations

import asyncio

import structlog

from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.metrics.instruments import dispatch_lateness
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

_LANES_AT_ONCE = 500  # one script call must not hold the store for long: about 10 ms
_PLANS_AT_ONCE = 50
_ROUNDS_AT_ONCE = 100  # then the loop looks whether it should stop


class Dispatcher:
    """`jobs_due` is set when messages without a lane are due: the router need not ask the store at every tick."""

    def __init__(
        self,
        *,
        store: Store,
        planner: Planner,
        settings: Settings,
        clock: Clock,
        jobs_due: asyncio.Event | None = None,
    ) -> None:
        self._store = store
        self._planner = planner
        self._settings = settings
        self._clock = clock
        self._jobs_due = jobs_due or asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        every_s = self._settings.dispatch_interval_ms / 1000
        await repeat(self.run_once, stop, every_s=every_s, name="dispatcher")

    async def run_once(self) -> int:
        """Serves every lane that is due now; returns how many messages moved."""
        moved = 0
        for _ in range(_ROUNDS_AT_ONCE):
            released = await self._store.lanes.release_due(lanes=_LANES_AT_ONCE)
            moved += released.moved
            if released.jobs_due:
                self._jobs_due.set()
            dispatch_lateness.add_all_ms(released.late_ms)
            for start in range(0, len(released.to_plan), _PLANS_AT_ONCE):
                batch = released.to_plan[start : start + _PLANS_AT_ONCE]
                await asyncio.gather(*(self._planner.plan(lane) for lane in batch))
            if not released.to_plan and released.looked < _LANES_AT_ONCE:
                break
        return moved
