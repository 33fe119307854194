"""Alerts in the store: the desk's memory, the list of the last ones, and those that wait to be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection

_KEEP = 500  # alerts that the list shows
_LONGEST_QUEUE = 500  # waiting for Telegram; an hour of it away makes a few dozen
AT_ONCE = 30  # notices that may be under way in one message


@dataclass(frozen=True, kw_only=True)
class DeskState:
    version: int
    position: int | None  # None: it never read anything
    records: dict[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class OutgoingNotice:
    """A notice as it is kept, and the journal entry that tells of it."""

    json: str
    type: str
    session_id: str
    data: str  # JSON
    send: bool


@dataclass(frozen=True, kw_only=True)
class Claimed:
    notices: list[str]
    left_out: int
    failures: int
    wait_ms: int


@dataclass(frozen=True, kw_only=True)
class ChannelState:
    waiting: int
    problem: str
    problem_since: int | None
    last_sent_at: int | None
    left_out: int


class AlertStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {"now": self._clock.now_ms(), **arguments})

    # the desk --------------------------------------------------------------------------------------------------
    async def load(self) -> DeskState:
        """Read in one turn; a step between the two reads shows at the next commit."""
        state, records = await asyncio.gather(
            self._connection.call("HGETALL", keys.ALERTS_STATE()), self._connection.call("HGETALL", keys.ALERTS_DESK())
        )
        return DeskState(
            version=int(state.get("version", 0)),
            position=int(float(state["position"])) if "position" in state else None,
            records={field: msgspec.json.decode(text) for field, text in records.items()},
        )

    async def commit(
        self,
        *,
        version: int,
        position: int,
        written: Mapping[str, dict[str, Any]],
        dropped: Sequence[str],
        notices: Sequence[OutgoingNotice],
    ) -> bool:
        """False: somebody else wrote in between, nothing was changed."""
        answer = await self._run(
            "commit_alerts",
            version=version,
            position=position,
            set={field: msgspec.json.encode(record).decode() for field, record in written.items()},
            drop=list(dropped),
            notices=[
                {"json": n.json, "type": n.type, "session": n.session_id, "data": n.data, "send": n.send}
                for n in notices
            ],
            keep=_KEEP,
            longest=_LONGEST_QUEUE,
            spare=AT_ONCE,
        )
        return bool(answer["done"])

    async def open_records(self) -> dict[str, dict[str, Any]]:
        """subject → the trouble that stands."""
        records = await self._connection.call("HGETALL", keys.ALERTS_DESK())
        return {f[2:]: msgspec.json.decode(text) for f, text in records.items() if f.startswith("s:")}

    async def recent(self, *, limit: int) -> list[str]:
        """Newest first, as JSON."""
        found: list[str] = await self._connection.call("LRANGE", keys.ALERTS_RECENT(), 0, limit - 1)
        return found

    # the way out -----------------------------------------------------------------------------------------------
    async def claim(self, owner: str, *, lease_ms: int) -> Claimed:
        answer = await self._run("claim_notices", owner=owner, leaseMs=lease_ms, most=AT_ONCE)
        return Claimed(
            notices=list(answer["notices"]), left_out=int(answer["leftOut"]), failures=int(answer["failures"]),
            wait_ms=int(answer["waitMs"]),
        )  # fmt: skip

    async def settle(
        self,
        owner: str,
        *,
        done: int = 0,
        sent: bool = False,
        left_out: int = 0,
        problem: str = "",
        failures: int = 0,
        wait_ms: int = 0,
    ) -> bool:
        answer = await self._run(
            "settle_notices", owner=owner, done=done, leftOut=left_out, problem=problem, failures=failures,
            notBefore=self._clock.now_ms() + wait_ms if wait_ms else 0, sent=sent,
        )  # fmt: skip
        return bool(answer["settled"])

    async def try_now(self) -> None:
        """Whatever kept notices back may be over: the next look sends."""
        await self._connection.call("HDEL", keys.ALERTS_CHANNEL(), "notBefore", "problem", "problemSince", "failures")

    async def channel(self) -> ChannelState:
        waiting, found = await asyncio.gather(
            self._connection.call("LLEN", keys.ALERTS_OUTBOX()), self._connection.call("HGETALL", keys.ALERTS_CHANNEL())
        )

        def moment(name: str) -> int | None:
            return int(float(found[name])) if found.get(name) else None

        return ChannelState(
            waiting=int(waiting), problem=found.get("problem", ""), problem_since=moment("problemSince"),
            last_sent_at=moment("lastSentAt"), left_out=int(found.get("leftOut", 0)),
        )  # fmt: skip
