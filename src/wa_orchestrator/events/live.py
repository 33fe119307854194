"""The journal as a live stream: one reader of the store per process, any number of listeners."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import structlog
from redis.exceptions import RedisError

from wa_orchestrator.background import SameTrouble, unless_stopped, wait_or_stop
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.store import Store
from wa_orchestrator.store.journal import GAP, JournalEntry, gap_entry, restarted_entry, with_gaps

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
        self._now_ms = SystemClock().now_ms
        self._listeners: set[Listener] = set()
        self._taps: set[Callable[[JournalEntry], None]] = set()
        self._reading = asyncio.Event()
        self._turn = asyncio.Event()
        self.position = 0  # the last number that was passed on
        self.closing = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        number: int | None = None
        sure = False
        trouble = SameTrouble()
        while not stop.is_set():
            try:
                if not sure or number is None:
                    last = await self._store.journal.last_number()
                    # go on where we were: what was noted while we were cut off comes now. At the first start, and when
                    # the store was emptied and numbers begin again, from its end.
                    if number is not None and number > last:
                        self._cut_off()
                    number = last if number is None or number > last else number
                    sure = True
                    self.position = number
                    self._reading.set()
                reading = self._store.journal.wait_after(number, limit=_BATCH, wait_ms=_BLOCK_MS)
                entries = await unless_stopped(stop, reading) or []
            except asyncio.CancelledError:
                raise
            except (RedisError, OSError, Exception) as error:
                if times := trouble.again():
                    log.warning("live_events_wait_for_store", error=str(error)[:200], times=times)
                sure = False
                await wait_or_stop(stop, 1.0)
                continue
            for entry in entries:
                number = self.position = entry.number
                for tap in self._taps:
                    tap(entry)
                for listener in self._listeners:
                    listener.offer(entry)
            if entries:
                self._turn.set()
                self._turn = asyncio.Event()
            else:
                sure = False  # a quiet moment: have numbers begun anew?
        self.close()

    def _cut_off(self) -> None:
        """Numbers began anew: what listeners wait for does not come. They resume and are told so."""
        for listener in self._listeners:
            listener.lost = True
            listener.offer(None)

    def close(self) -> None:
        """Lets every listener end now."""
        self.closing.set()
        self._turn.set()
        for listener in self._listeners:
            listener.offer(None)

    async def begun(self) -> None:
        """Until its place in the journal is known: from there on nothing is missed."""
        await self._reading.wait()

    async def wait_beyond(self, number: int, *, timeout_s: float) -> None:
        """Until something newer than `number` was passed on, or the time is over; costs the store nothing."""
        try:
            async with asyncio.timeout(timeout_s):
                while self.position <= number and not self.closing.is_set():
                    await self._turn.wait()
        except TimeoutError:
            return

    @contextmanager
    def tap(self, take: Callable[[JournalEntry], None]) -> Iterator[None]:
        """Calls `take` with every new entry, at once and in order: for what must not be queued."""
        self._taps.add(take)
        try:
            yield
        finally:
            self._taps.discard(take)

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
        """Entries after a number; None when nothing came for `idle_s`. What is no longer kept shows as a gap."""

        def chosen(entry: JournalEntry) -> bool:
            return not session_id or entry.session_id == session_id or entry.type == GAP

        last = after
        with self.listen() as listener:
            # from here on what is new comes into the queue; before that, it is in the journal
            await unless_stopped(self.closing, self._reading.wait())
            # what is in the journal already; live entries wait in the queue meanwhile
            while True:
                page = await self._store.journal.page(last, limit=_BATCH)
                if page.last < last and not page.entries:
                    yield restarted_entry(last, at=self._now_ms())
                    last = 0
                    continue
                for entry in with_gaps(last, page.entries):
                    if chosen(entry):
                        yield entry
                if not page.entries and (gap := page.gap_after(last)):
                    yield gap_entry(*gap, at=self._now_ms())
                    last = gap[1]
                last = page.entries[-1].number if page.entries else last
                if len(page.entries) < _BATCH:
                    break
            while not self.closing.is_set() and not listener.lost:
                try:
                    fresh = await asyncio.wait_for(listener.queue.get(), timeout=idle_s)
                except TimeoutError:
                    yield None
                    continue
                if fresh is not None and fresh.number > last:
                    for entry in with_gaps(last, [fresh]):
                        if chosen(entry):
                            yield entry
                    last = fresh.number
