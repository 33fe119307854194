"""Measures how late the event loop comes: what blocks it makes everybody wait."""

from __future__ import annotations

import asyncio
import time

from wa_orchestrator.background import wait_or_stop
from wa_orchestrator.metrics import instruments

_EVERY_S = 0.25


class LoopLag:
    async def run(self, stop: asyncio.Event) -> None:
        while True:
            due = time.perf_counter() + _EVERY_S
            if await wait_or_stop(stop, _EVERY_S):
                return
            instruments.loop_lag.add(max(0.0, time.perf_counter() - due))
