"""Keeps the journal as long as it should be. Beside the work, so that noting an event costs nothing for it."""

from __future__ import annotations

import asyncio

from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

_EVERY_S = 10.0
_MS_DAY = 24 * 3600 * 1000


class JournalKeeper:
    def __init__(self, *, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def run_once(self) -> int:
        """How many entries were cut off."""
        settings = self._settings
        return await self._store.webhooks.trim_journal(
            length=settings.journal_length,
            backlog=max(settings.webhook_backlog, settings.journal_length),
            before=self._clock.now_ms() - settings.journal_keep_days * _MS_DAY,
        )

    async def run(self, stop: asyncio.Event) -> None:
        await repeat(self.run_once, stop, every_s=_EVERY_S, name="journal_keeper")
