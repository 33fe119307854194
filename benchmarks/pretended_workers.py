"""Workers as the store sees them: woken, they claim what lies in their outbox and say that it was sent."""

from __future__ import annotations

import asyncio
import contextlib

from wa_orchestrator.clock import SystemClock
from wa_orchestrator.store import Store, keys


class PretendedWorkers:
    """One subscription for all sessions, with a store connection of its own."""

    def __init__(self, url: str) -> None:
        self._store = Store(url, SystemClock())
        self._listening: asyncio.Task[None] | None = None
        self._at_work: set[asyncio.Task[None]] = set()
        self.sent = 0

    async def __aenter__(self) -> PretendedWorkers:
        subscribed = asyncio.Event()
        self._listening = asyncio.create_task(self._listen(subscribed))
        await subscribed.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._listening:
            self._listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listening
        await asyncio.gather(*self._at_work)
        await self._store.close()

    async def _listen(self, subscribed: asyncio.Event) -> None:
        async with self._store.connection.client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(keys.WAKE())
            subscribed.set()
            while True:
                message = await channel.get_message(timeout=5)
                if message is not None:
                    task = asyncio.create_task(self._work(str(message["data"])))
                    self._at_work.add(task)
                    task.add_done_callback(self._at_work.discard)

    async def _work(self, session_id: str) -> None:
        outbox = self._store.outbox
        for message in await outbox.claim(session_id, most=10):
            await outbox.ack(message["messageId"], session_id=session_id, sent_at=SystemClock().now_ms())
            self.sent += 1
