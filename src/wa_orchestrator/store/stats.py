"""What happened minute by minute: messages as the scripts count them, sessions as somebody looks at them."""

from __future__ import annotations

import asyncio

from wa_orchestrator.clock import Clock
from wa_orchestrator.store import keys
from wa_orchestrator.store.connection import Connection

_KEEP_S = 172_800
_SETTLED_MINUTES = 2  # a minute so long over is not written any more
Minute = dict[str, int]


class StatsStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._known: dict[int, Minute] = {}  # minutes that are over never change: read once

    async def minutes(self, *, last: int) -> list[tuple[int, Minute]]:
        """(minute since the epoch, its counts) of the newest `last` minutes, the oldest first."""
        now = self._clock.now_ms() // 60_000
        wanted = range(now - last + 1, now + 1)
        unknown = [minute for minute in wanted if minute not in self._known]
        records = await asyncio.gather(
            *(self._connection.call("HGETALL", keys.STATS_MINUTE(str(minute))) for minute in unknown)
        )
        fresh = {
            minute: {name: int(value) for name, value in record.items()}
            for minute, record in zip(unknown, records, strict=True)
        }
        self._known.update({minute: counts for minute, counts in fresh.items() if minute <= now - _SETTLED_MINUTES})
        for minute in [minute for minute in self._known if minute < now - _KEEP_S // 60]:
            del self._known[minute]
        return [(minute, self._known.get(minute) or fresh.get(minute, {})) for minute in wanted]

    async def note_sessions(self, *, connected: int, total: int) -> None:
        """How many there are now; the last look of a minute stays."""
        key = keys.STATS_MINUTE(str(self._clock.now_ms() // 60_000))
        await asyncio.gather(
            self._connection.call("HSET", key, "sessionsConnected", connected, "sessionsTotal", total),
            self._connection.call("EXPIRE", key, _KEEP_S),
        )
