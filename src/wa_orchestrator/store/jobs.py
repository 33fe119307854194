"""Scheduled work in the store: when each job is due, and who does it now."""

from __future__ import annotations

from typing import Any

from wa_orchestrator.clock import Clock
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection


class JobStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {"now": self._clock.now_ms(), **arguments})

    async def claim(self, name: str, *, schedule: str, next_due: int, token: str, claim_ms: int) -> bool:
        """True: it is due and ours now. `next_due` is when it is due after this time."""
        answer = await self._run(
            "claim_job", job=name, schedule=schedule, nextDue=next_due, token=token, claimMs=claim_ms
        )
        return bool(answer["claimed"])

    async def renew(self, name: str, *, token: str, claim_ms: int) -> bool:
        answer = await self._run("end_job", job=name, token=token, claimMs=claim_ms)
        return bool(answer["held"])

    async def end(self, name: str, *, token: str, error: str) -> bool:
        answer = await self._run("end_job", job=name, token=token, error=error, ended=True)
        return bool(answer["held"])

    async def get(self, name: str) -> dict[str, str]:
        found: dict[str, str] = await self._connection.call("HGETALL", keys.JOB(name))
        return found
