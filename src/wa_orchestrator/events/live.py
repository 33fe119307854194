"""The journal as a live stream: one reader of the store per process, any number of listeners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import structlog
from redis.exceptions import RedisError

from wa_orchestrator.background import unless_stopped, wait_or_stop
from wa_orchestrator.store import Store
from wa_orchestrator.store.journal import JournalEntry

log = structlog.get_logger()

_BLOCK_MS = 2000
_BATCH = 500
_LONGEST_QUEUE = 1000  # a listener that is further behind is cut off and resumes from its last number


class Listener:
    """One listener's queue. `lost` is set when it was too slow."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[JournalEntry | None] = asyncio.Queue(_LONGEST_QUEUE)
        self.lost = False

    def offer(self, entry: JournalEntry | None) -> None:
        """None only wakes the listener, so that it looks whether it should end."""
        try:
            self.queue.put_nowait(entry)
        except asyncio.QueueFull:
            self.lost = True


class LiveEvents:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: set[Listener] = set()
        self._reading = asyncio.Event()
        self.closing = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        number: int | None = None
        sure = False
        while not stop.is_set():
            try:
                if not sure or number is None:
                    last = await self._store.journal.last_number()
                    # go on where we were: what was noted while we were cut off comes now. At the first start, and when
                    # the store was emptied and numbers begin again, from its end.
                    number = last if number is None or number > last else number
                    sure = True
                    self._reading.set()
                reading = self._store.journal.wait_after(number, limit=_BATCH, wait_ms=_BLOCK_MS)
                entries = await unless_stopped(stop, reading) or []
            except asyncio.CancelledError:
                raise
            except (RedisError, OSError, Exception) as error:
                log.warning("live_events_wait_for_store", error=str(error)[:200])
                sure = False
                await wait_or_stop(stop, 1.0)
                continue
            for entry in entries:
                number = entry.number
                for listener in self._listeners:
                    listener.offer(entry)
        self.close()

    def close(self) -> None:
        """Lets every listener end now."""
        self.closing.set()
        for listener in self._listeners:
            listener.offer(None)

    @contextmanager
    def listen(self) -> Iterator[Listener]:
        listener = Listener()
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    async def place(self, after: int | None) -> int:
        """Where a listener begins: after its number, or from now on. Asked before it is told that it is connected."""
        return after if after is not None else await self._store.journal.last_number()

    async def follow(
        self, *, after: int, session_id: str = "", idle_s: float = 15.0
    ) -> AsyncIterator[JournalEntry | None]:
        """Entries after a number, without a gap; None when nothing came for `idle_s`."""
        last = after
        with self.listen() as listener:
            # from here on what is new comes into the queue; before that, it is in the journal
            await unless_stopped(self.closing, self._reading.wait())
            # what is in the journal already; live entries wait in the queue meanwhile
            while True:
                entries = await self._store.journal.after(last, limit=_BATCH)
                for entry in entries:
                    last = entry.number
                    if not session_id or entry.session_id == session_id:
                        yield entry
                if len(entries) < _BATCH:
                    break
            while not self.closing.is_set() and not listener.lost:
                try:
                    fresh = await asyncio.wait_for(listener.queue.get(), timeout=idle_s)
                except TimeoutError:
                    yield None
                    continue
                if fresh is not None and fresh.number > last:
                    last = fresh.number
                    if not session_id or fresh.session_id == session_id:
                        yield fresh
