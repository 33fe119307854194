"""Looks at the stock again and again; what runs low, or is enough again, is noted in the journal."""

from __future__ import annotations

import asyncio

from wa_orchestrator.background import repeat, wait_or_stop
from wa_orchestrator.inventory.stock import Stock, count_stock, thresholds_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

_LOOK_EVERY_S = 10.0


class Inventory:
    def __init__(self, *, store: Store, settings: Settings) -> None:
        self._store = store
        self._slots = settings.max_sessions_per_proxy
        self.thresholds = thresholds_of(settings)

    async def stock(self) -> Stock:
        proxies, sessions, profiles = await asyncio.gather(
            self._store.proxies.all(), self._store.sessions.glances(), self._store.inventory.profile_phones()
        )
        return count_stock(proxies=proxies, sessions=sessions, profiles=profiles, slots_per_proxy=self._slots)


class InventoryWatch:
    """Whether it lasts, and whether it is worth an alert, is decided where alerts are."""

    def __init__(self, inventory: Inventory, store: Store) -> None:
        self._inventory = inventory
        self._store = store

    async def run(self, stop: asyncio.Event) -> None:
        # first the workers get a moment to report
        if not await wait_or_stop(stop, _LOOK_EVERY_S):
            await repeat(self.run_once, stop, every_s=_LOOK_EVERY_S, name="inventory")

    async def run_once(self) -> list[str]:
        stock = await self._inventory.stock()
        low = stock.low(self._inventory.thresholds)
        await self._store.inventory.note_stock(stock.counts(), low=low, thresholds=self._inventory.thresholds)
        return low
