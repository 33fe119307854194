"""Wakes waiting long polls: one subscription per process, however many workers wait."""

from __future__ import annotations

import asyncio
from collections import defaultdict

import structlog

from wa_orchestrator.background import unless_stopped, wait_or_stop
from wa_orchestrator.store import Store, keys

log = structlog.get_logger()

_WAIT_S = 30.0


class Wake:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self._closing = False

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            try:
                await self._listen(stop)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                log.warning("wake_waits_for_store", error=str(error)[:200])
                await wait_or_stop(stop, 1.0)
        self.close()

    async def _listen(self, stop: asyncio.Event) -> None:
        async with self._store.connection.client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(keys.WAKE())
            # something may have been told while nobody listened
            self._wake_all()
            while not stop.is_set():
                message = await unless_stopped(stop, channel.get_message(timeout=_WAIT_S))
                if message is not None:
                    for event in self._waiting.get(str(message["data"]), ()):
                        event.set()

    def _wake_all(self) -> None:
        for events in self._waiting.values():
            for event in events:
                event.set()

    def close(self) -> None:
        """Lets everybody who waits go at once, and nobody wait any more."""
        self._closing = True
        self._wake_all()

    def register(self, session_id: str) -> asyncio.Event:
        event = asyncio.Event()
        if self._closing:
            event.set()
        self._waiting[session_id].add(event)
        return event

    def unregister(self, session_id: str, event: asyncio.Event) -> None:
        events = self._waiting.get(session_id)
        if events:
            events.discard(event)
            if not events:
                del self._waiting[session_id]
