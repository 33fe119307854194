"""Orders given to another orchestrator reach the leader here, at once instead of at its next round."""

from __future__ import annotations

import asyncio

import structlog

from wa_orchestrator.background import listening_again, unless_stopped
from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.store import Store, keys

log = structlog.get_logger()

_WAIT_S = 30.0


class RequestListener:
    def __init__(self, *, store: Store, lifecycle: Lifecycle) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._work: set[asyncio.Task[None]] = set()

    async def run(self, stop: asyncio.Event) -> None:
        await listening_again(self._listen, stop, tell=_cut_off)
        if self._work:
            await asyncio.wait(self._work, timeout=15)

    async def _listen(self, stop: asyncio.Event) -> None:
        async with self._store.connection.client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(keys.RECONCILE())
            while not stop.is_set():
                message = await unless_stopped(stop, channel.get_message(timeout=_WAIT_S))
                if message is not None:
                    task = asyncio.create_task(self._settle(str(message["data"])))
                    self._work.add(task)
                    task.add_done_callback(self._work.discard)

    async def _settle(self, session_id: str) -> None:
        try:
            await self._lifecycle.ensure(session_id)
        except OrchestratorError as error:
            log.warning("order_not_carried_out", session_id=session_id, code=error.code, error=error.message)


def _cut_off(error: Exception, times: int) -> None:
    log.warning("requests_wait_for_store", error=str(error)[:200], times=times)
