"""Keeps the folder of received files within its age and its room; each orchestrator looks after its own disk."""

from __future__ import annotations

import asyncio

import structlog

from wa_orchestrator.background import repeat
from wa_orchestrator.inbound.files import InboundFiles
from wa_orchestrator.store import Store

log = structlog.get_logger()

_EVERY_S = 600.0


class InboundRetention:
    def __init__(self, *, store: Store, files: InboundFiles) -> None:
        self._store = store
        self._files = files

    async def run(self, stop: asyncio.Event) -> None:
        await repeat(self.run_once, stop, every_s=_EVERY_S, name="inbound_retention", wake=self._files.crowded)

    async def run_once(self) -> None:
        here = await asyncio.to_thread(self._files.sessions)
        # only those that were deleted on purpose: an empty store must not empty the folder
        gone = [name for name in here if await self._was_deleted(name)]
        swept = await asyncio.to_thread(self._files.sweep, gone=gone)
        if swept.removed:
            log.info("inbound_files_removed", files=swept.removed, left_bytes=swept.left_bytes)

    async def _was_deleted(self, session_id: str) -> bool:
        if await self._store.sessions.get(session_id) is not None:  # deleted and made again
            return False
        return await self._store.sessions.was_deleted(session_id)
