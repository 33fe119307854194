"""What workers report about messages by events: receipts, late outcomes, and who talked to whom."""

from __future__ import annotations

import structlog

from wa_orchestrator.errors import MessageNotFound
from wa_orchestrator.gateway.content import message_id_of
from wa_orchestrator.store import Store
from wa_orchestrator.worker_api.outcomes import kind_of
from wa_orchestrator.worker_api.projector import WorkerEvent

log = structlog.get_logger()

MESSAGE_EVENTS = frozenset({"MESSAGE_SENT", "MESSAGE_FAILED", "MESSAGE_STATUS", "MESSAGE_RECEIVED"})
_RECEIPTS = frozenset({"delivered", "read", "played", "error"})


class Receipts:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, event: WorkerEvent) -> None:
        """Moves the message on. One that is not ours (sent on the phone itself, or forgotten) is passed over."""
        if event.type == "MESSAGE_RECEIVED":
            await self._talked(event)
            return
        wa_id, named = str(event.data.get("waMessageId") or ""), str(event.data.get("messageId") or "")
        message_id = named or (message_id_of(wa_id) if wa_id.startswith("3EB0") else "")
        if not message_id:
            return
        try:
            if event.type == "MESSAGE_SENT" or event.data.get("status") == "sent":
                await self._store.outbox.ack(message_id, session_id=event.session_id, sent_at=event.timestamp)
            elif event.type == "MESSAGE_FAILED" and not (_is_limit(event) or event.data.get("retryable") is True):
                await self._receipt(message_id, event, "error")
            elif (status := str(event.data.get("status"))) in _RECEIPTS:
                await self._receipt(message_id, event, status)
        except MessageNotFound:
            log.debug("receipt_of_unknown_message", session_id=event.session_id)

    async def _talked(self, event: WorkerEvent) -> None:
        """Who wrote to us is answered by the same session, and needs no look-up whether the number exists."""
        sender = str(event.data.get("from") or "")
        if sender.isascii() and sender.isdigit():
            await self._store.lanes.talked(sender, event.session_id)

    async def _receipt(self, message_id: str, event: WorkerEvent, status: str) -> None:
        error = event.data.get("error")
        text = str(error.get("code") if isinstance(error, dict) else error or "")
        await self._store.messages.receipt(
            message_id, session_id=event.session_id, status=status, at=event.timestamp, error=text[:200]
        )


def _is_limit(event: WorkerEvent) -> bool:
    """WhatsApp's own limit holds the message back, it does not end it: the next try brings it to the lane's notice."""
    error = event.data.get("error")
    return isinstance(error, dict) and kind_of(str(error.get("code"))) == "limited"
