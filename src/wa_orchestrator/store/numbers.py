"""What the store knows about the whole installation in numbers, for metrics: a few short reads, however large it is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.clock import Clock
from wa_orchestrator.store import scripts
from wa_orchestrator.store.connection import Connection

# One call holds the store for about 2 ms with so many sessions; a send waits no longer than that.
_SESSIONS_AT_ONCE = 200
_FRESH_PING_MS = 180_000
_ALIVE_MS = 9000  # an orchestrator shows itself every two seconds


@dataclass(frozen=True, kw_only=True)
class StoreNumbers:
    sessions: dict[str, int]
    sessions_waiting_for_proxy: int
    workers_reporting: int
    worker_memory_sum: int
    worker_memory_max: int
    lanes_waiting: int
    lanes_under_way: int
    lanes_blocked: int
    lanes_slowed: int
    lanes_due: int
    oldest_due_s: float
    jobs: int
    claimed: int
    dead: int
    totals: dict[str, int]
    failed: dict[str, int]
    proxies: dict[str, int]
    free_slots: int
    webhooks: dict[str, int]
    journal: int
    leaders: int
    orchestrators: int


class NumberStore:
    def __init__(self, connection: Connection, clock: Clock, *, slots_per_proxy: int) -> None:
        self._connection = connection
        self._clock = clock
        self._cap = slots_per_proxy

    async def read(self) -> StoreNumbers:
        now = self._clock.now_ms()
        whole = await scripts.run(self._connection, "count_store", {"now": now, "cap": self._cap, "aliveMs": _ALIVE_MS})
        # one after the other: calls that travel together are run in one go, and everybody else would wait
        parts = [await self._part(now, first) for first in range(0, int(whole["sessions"]), _SESSIONS_AT_ONCE)]
        # several sessions of one phone share a lane: it counts once
        lanes = {phone: sizes for part in parts for phone, *sizes in _triples(part["lanes"])}
        return StoreNumbers(
            sessions=dict(sum((Counter(part["states"]) for part in parts), Counter[str]())),
            sessions_waiting_for_proxy=whole["waitingForProxy"],
            workers_reporting=sum(part["reporting"] for part in parts),
            worker_memory_sum=int(sum(part["rssSum"] for part in parts)),
            worker_memory_max=int(max((part["rssMax"] for part in parts), default=0)),
            lanes_waiting=sum(waiting for waiting, _ in lanes.values()),
            lanes_under_way=sum(under_way for _, under_way in lanes.values()),
            lanes_blocked=len({phone for part in parts for phone in part["blocked"]}),
            lanes_slowed=len({phone for part in parts for phone in part["slowed"]}),
            lanes_due=whole["lanesDue"],
            oldest_due_s=whole["oldestDueMs"] / 1000,
            jobs=whole["jobs"],
            claimed=whole["claimed"],
            dead=whole["dead"],
            totals=dict(whole["totals"]),
            failed=dict(whole["failed"]),
            proxies=dict(whole["proxies"]),
            free_slots=int(whole["freeSlots"]),
            webhooks=dict(whole["webhooks"]),
            journal=whole["journal"],
            leaders=whole["leader"],
            orchestrators=whole["orchestrators"],
        )

    async def _part(self, now: int, first: int) -> dict[str, Any]:
        last = first + _SESSIONS_AT_ONCE - 1
        arguments = {"now": now, "first": first, "last": last, "freshMs": _FRESH_PING_MS}
        return await scripts.run(self._connection, "count_sessions", arguments)


def _triples(flat: Any) -> zip[tuple[Any, ...]]:
    """An empty list comes from Lua as an empty object."""
    items = iter(list(flat))
    return zip(items, items, items, strict=True)
