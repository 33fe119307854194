"""Takes what workers report about incoming messages into conversations and the records of files."""

from __future__ import annotations

from wa_orchestrator.inbound.reading import media_outcome, received
from wa_orchestrator.store import Store
from wa_orchestrator.worker_api.projector import WorkerEvent

INBOUND_EVENTS = frozenset({"MESSAGE_RECEIVED", "MEDIA_READY", "MEDIA_FAILED"})


class Inbox:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, event: WorkerEvent) -> None:
        """Called before the event's number is remembered: should we die in between, the repeat changes nothing."""
        if event.type == "MESSAGE_RECEIVED":
            message = received(event.data, at=event.timestamp)
            if message is not None:
                await self._store.conversations.receive(event.session_id, message)
            return
        outcome = media_outcome(event.type, event.data)
        if outcome is not None:
            await self._store.conversations.settle_media(event.session_id, outcome[0], outcome[1])
