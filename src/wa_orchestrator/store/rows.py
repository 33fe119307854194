"""Everything a list of sessions shows, read in a few steps however many sessions there are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.clock import Clock
from wa_orchestrator.model.session import Session, Wanted
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection, batched
from wa_orchestrator.store.sessions import as_session

_LANE_FIELDS = ("dayKey", "dayCount", "daily", "dayEndsAt", "slow", "slowSince", "failures", "blockedUntil",
                "blockReason", "pausedUntil", "opensAt", "nextDue")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """A session with what its phone's lane says."""

    session: Session
    first_connected_at: int | None
    lane: dict[str, str]
    waiting: int
    under_way: int


class RowStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def all(self) -> list[SessionRow]:
        """All sessions but those that are being deleted, the oldest first."""
        call = self._connection.call
        ids, waiting = await asyncio.gather(
            call("ZRANGE", keys.SESSIONS_ALL(), 0, -1), call("SMEMBERS", keys.SESSIONS_WAITING())
        )
        return await self.some(ids, waiting=frozenset(waiting))

    async def some(self, ids: list[str], *, waiting: frozenset[str] = frozenset()) -> list[SessionRow]:
        # one script call holds the store for about 2 ms; a send waits no longer than that
        answers = await asyncio.gather(*(self._read(part) for part in batched(ids)))
        rows = [_row(raw, waiting) for answer in answers for raw in answer]
        return [row for row in rows if row.session.wanted is not Wanted.DELETED]

    async def _read(self, ids: list[str]) -> list[Any]:
        arguments = {"now": self._clock.now_ms(), "ids": ids, "laneFields": _LANE_FIELDS}
        answer = await scripts.run(self._connection, "session_rows", arguments)
        return list(answer["rows"])


def _row(raw: list[Any], waiting: frozenset[str]) -> SessionRow:
    flat, lane, first, queued, under_way = raw
    record = dict(zip(flat[::2], flat[1::2], strict=True))
    # a phone without a lane comes as an empty object, a lane's missing field as false
    values = zip(_LANE_FIELDS, lane or (), strict=False)
    return SessionRow(
        session=as_session(record, waiting=record["id"] in waiting),
        first_connected_at=int(first) if first else None,
        lane={name: value for name, value in values if value},
        waiting=queued,
        under_way=under_way,
    )
