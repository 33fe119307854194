"""The store's numbers, read at most once a second: open endpoints and impatient scrapers must not load the store."""

from __future__ import annotations

import asyncio
import time

from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.store import Store
from wa_orchestrator.store.numbers import StoreNumbers

_KEEP_S = 1.0
_SHARE = 20  # reading takes at most this part of the time: a large installation is read less often
_ANSWER_S = 2.0  # a probe should hear "away" before it gives up itself


class CachedNumbers:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._read: asyncio.Task[StoreNumbers | None] | None = None
        self._fresh_until = 0.0

    async def get(self) -> StoreNumbers:
        """Raises StoreUnavailable when the store does not answer soon. All who ask meanwhile share one read."""
        if self._read is None or (self._read.done() and time.monotonic() > self._fresh_until):
            self._read = asyncio.create_task(self._bounded())
        numbers = await asyncio.shield(self._read)  # one who leaves does not take the answer from the others
        if numbers is None:
            raise StoreUnavailable
        return numbers

    async def _bounded(self) -> StoreNumbers | None:
        began = time.monotonic()
        numbers: StoreNumbers | None = None
        try:
            async with asyncio.timeout(_ANSWER_S):
                numbers = await self._store.numbers.read()
        except (StoreUnavailable, TimeoutError):
            pass  # None says it
        ended = time.monotonic()
        self._fresh_until = ended + (max(_KEEP_S, (ended - began) * _SHARE) if numbers else _KEEP_S)
        return numbers
