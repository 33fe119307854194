"""The outbox in the store: claim with a lease, ack, nack, leases that ran out."""

from __future__ import annotations

from typing import Any, Literal

from wa_orchestrator.store import scripts
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.messages import Stamp

Kind = Literal["refused", "unclear", "limited"]


class OutboxStore:
    def __init__(self, connection: Connection, stamp: Stamp, *, lease_ms: int = 120_000, max_attempts: int = 3) -> None:
        self._connection = connection
        self._stamp = stamp
        self._lease_ms = lease_ms
        self._max_attempts = max_attempts

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {**self._stamp.arguments(), **arguments})

    async def claim(self, session_id: str, *, most: int, empty_handed: bool = False) -> list[dict[str, Any]]:
        _, _, messages = await self.look(session_id, most=most, empty_handed=empty_handed)
        return messages

    async def look(
        self, session_id: str, *, most: int, empty_handed: bool = False
    ) -> tuple[bool, list[str], list[dict[str, Any]]]:
        """(is there such a session, its waiting commands, its messages), in one step.

        `empty_handed`: what this session's worker was given before and did not answer for, it does not have.
        """
        answer = await self._run(
            "claim_messages", session=session_id, max=most, leaseMs=self._lease_ms, emptyHanded=empty_handed
        )
        return answer["exists"], list(answer["commands"]), list(answer["messages"])

    async def ack(self, message_id: str, *, session_id: str, sent_at: int) -> bool:
        """True when it was known as sent already."""
        answer = await self._run("ack_message", id=message_id, session=session_id, sentAt=sent_at)
        return bool(answer["repeated"])

    async def nack(
        self,
        message_id: str,
        *,
        session_id: str,
        token: int,
        code: str,
        message: str,
        retryable: bool,
        retry_after_ms: int | None,
        kind: Kind,
        block_ms: int = 0,
    ) -> str:
        answer = await self._run(
            "nack_message",
            id=message_id,
            session=session_id,
            token=token,
            code=code,
            message=message,
            retryable=retryable,
            retryAfterMs=retry_after_ms,
            kind=kind,
            blockMs=block_ms,
            maxAttempts=self._max_attempts,
        )
        return str(answer["state"])

    async def requeue_expired(self, *, limit: int = 500) -> int:
        return int((await self._run("requeue_expired", limit=limit))["requeued"])

    async def wake_retries(self, *, limit: int = 500) -> int:
        return int((await self._run("wake_retries", limit=limit))["woken"])
