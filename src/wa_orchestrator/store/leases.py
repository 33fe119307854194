"""Who runs the loops: a lease in the store, held by one orchestrator at a time."""

from __future__ import annotations

from dataclasses import dataclass

from wa_orchestrator.clock import Clock
from wa_orchestrator.store import scripts
from wa_orchestrator.store.connection import Connection


@dataclass(frozen=True)
class Held:
    held: bool
    owner: str
    others: int


class LeaseStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def hold(self, owner: str, *, ttl_ms: int) -> Held:
        """Takes the lease if it is free or ours."""
        return await self._run(owner, ttl_ms=ttl_ms, want=True)

    async def give_back(self, owner: str, *, ttl_ms: int) -> Held:
        return await self._run(owner, ttl_ms=ttl_ms, want=False)

    async def _run(self, owner: str, *, ttl_ms: int, want: bool) -> Held:
        arguments = {"now": self._clock.now_ms(), "owner": owner, "ttlMs": ttl_ms, "want": want}
        answer = await scripts.run(self._connection, "hold_lease", arguments)
        return Held(held=answer["held"], owner=answer["owner"], others=int(answer["others"]))
