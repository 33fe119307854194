"""Wakes waiting long polls: one subscription per process, however many workers wait."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable

import structlog
from redis.asyncio.client import PubSub

from wa_orchestrator.background import listening_again, unless_stopped
from wa_orchestrator.store import Store, keys

log = structlog.get_logger()

_WAIT_S = 30.0


class Wake:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: defaultdict[str, set[asyncio.Future[bool]]] = defaultdict(set)
        self._closing = False

    async def run(self, stop: asyncio.Event) -> None:
        await listening_again(self._listen, stop, tell=_cut_off)
        self.close()

    async def _listen(self, stop: asyncio.Event) -> None:
        async with self._store.connection.client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(keys.WAKE())
            # something may have been told while nobody listened
            self._wake_all()
            await unless_stopped(stop, self._take(channel))

    async def _take(self, channel: PubSub) -> None:
        while True:
            message = await channel.get_message(timeout=_WAIT_S)
            if message is not None:
                self._wake(self._waiting.get(str(message["data"]), ()))

    def _wake(self, waiting: Iterable[asyncio.Future[bool]]) -> None:
        for event in waiting:
            if not event.done():
                event.set_result(True)

    def _wake_all(self) -> None:
        for waiting in self._waiting.values():
            self._wake(waiting)

    def close(self) -> None:
        """Lets everybody who waits go at once, and nobody wait any more."""
        self._closing = True
        self._wake_all()

    @property
    def waiting(self) -> int:
        """How many polls wait in this process."""
        return sum(len(events) for events in self._waiting.values())

    def register(self, session_id: str) -> asyncio.Future[bool]:
        """True when the session is woken."""
        event: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self._closing:
            event.set_result(True)
        self._waiting[session_id].add(event)
        return event

    def unregister(self, session_id: str, event: asyncio.Future[bool]) -> None:
        events = self._waiting.get(session_id)
        if events:
            events.discard(event)
            if not events:
                del self._waiting[session_id]


def _cut_off(error: Exception, times: int) -> None:
    log.warning("wake_waits_for_store", error=str(error)[:200], times=times)
