"""Lanes in the store: one per sending phone, with its queue and its pacing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from wa_orchestrator.model.lane import LanePlan
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection, batched
from wa_orchestrator.store.messages import Stamp

_REMEMBER_S = 90 * 86400
_PLAN_FIELDS = {
    "daily": "daily",
    "per_minute": "perMinute",
    "min_delay_ms": "minDelay",
    "max_delay_ms": "maxDelay",
    "burst_count": "burstCount",
    "burst_pause_ms": "burstPause",
    "opens_at": "opensAt",
    "closes_at": "closesAt",
    "next_opens_at": "nextOpensAt",
    "day_key": "dayKey",
    "day_starts_at": "dayStartsAt",
    "day_ends_at": "dayEndsAt",
    "replan_at": "replanAt",
}


class Released(msgspec.Struct, frozen=True):
    moved: int
    looked: int
    jobs_due: int  # messages without a lane that wait for the router
    to_plan: list[str]
    late_ms: list[float]  # of each lane that released something: how long after its due time


@dataclass(frozen=True, kw_only=True)
class Job:
    """A message that has no queue yet."""

    message_id: str
    recipient: str
    session_id: str
    phone: str


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much a lane may still send today (None: any number), and how many wait in it."""

    left: int | None
    waiting: int


class LaneStore:
    def __init__(self, connection: Connection, stamp: Stamp, *, unpaced: int = 32, recipient_cap: int = 0) -> None:
        self._connection = connection
        self._stamp = stamp
        self._unpaced = unpaced
        self._recipient_cap = recipient_cap

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {**self._stamp.arguments(), **arguments})

    async def release_due(self, *, lanes: int) -> Released:
        """Serves up to `lanes` due senders in one step."""
        seed = random.getrandbits(31)
        cap: dict[str, int] = {}
        if self._recipient_cap:
            cap = {"recipientCap": self._recipient_cap, "tomorrow": self._stamp.tomorrow_ms()}
        answer = await self._run("release_due", lanes=lanes, unpaced=self._unpaced, seed=seed, **cap)
        return Released(
            moved=answer["moved"], looked=answer["looked"], jobs_due=answer["jobs"], to_plan=list(answer["plan"]),
            late_ms=list(answer["late"]),
        )  # fmt: skip

    async def next_due(self) -> int | None:
        """When the next lane is due."""
        found = await self._connection.call("ZRANGE", keys.LANES_DUE(), 0, 0, "WITHSCORES")
        flat = [item for pair in found for item in (pair if isinstance(pair, list) else [pair])]
        return int(float(flat[1])) if flat else None

    async def plan_version(self, lane: str) -> str:
        """To be read before the limits: a plan made from limits that changed meanwhile is not written."""
        return str(await self._connection.call("HGET", keys.LANE(lane), "planVersion") or "")

    async def write_plan(self, lane: str, plan: LanePlan, *, version: str) -> bool:
        """False: the limits changed meanwhile; the lane stays due."""
        fields = {_PLAN_FIELDS[name]: value for name, value in asdict(plan).items()}
        answer = await self._run("plan_lane", lane=lane, plan=fields, version=version)
        return not answer["stale"]

    async def replan(self, lane: str) -> None:
        """Its limits changed."""
        await self._run("replan_lane", lane=lane)

    async def get(self, lane: str) -> dict[str, str]:
        found: dict[str, str] = await self._connection.call("HGETALL", keys.LANE(lane))
        return found

    async def sizes(self, lane: str) -> tuple[int, int]:
        """(waiting in the queue, under way)."""
        waiting, under_way = await asyncio.gather(
            self._connection.call("SCARD", keys.QUEUE_SIZE(lane)),
            self._connection.call("SCARD", keys.LANE_INFLIGHT(lane)),
        )
        return int(waiting), int(under_way)

    async def rooms(self, lanes: Iterable[str], *, now_ms: int) -> dict[str, Room]:
        """How much each may still send today."""
        found: dict[str, Room] = {}
        ask = self._connection.ask
        for part in batched(sorted(lanes)):
            steps = [
                step
                for lane in part
                for step in (
                    ask("HMGET", keys.LANE(lane), "daily", "dayEndsAt", "dayCount"),
                    ask("SCARD", keys.QUEUE_SIZE(lane)),
                )
            ]
            answers = await asyncio.gather(*steps)
            for number, lane in enumerate(part):
                (daily, day_ends, count), waiting = answers[2 * number], int(answers[2 * number + 1])
                used = int(count or 0) if float(day_ends or 0) > now_ms else 0
                found[lane] = Room(left=None if daily is None else int(daily) - used - waiting, waiting=waiting)
        return found

    # routing ---------------------------------------------------------------------------------------------------
    async def due_jobs(self, *, now_ms: int, limit: int) -> list[Job]:
        call = self._connection.call
        # scores carry the order within a millisecond behind the point
        ids = await call("ZRANGE", keys.GATEWAY_JOBS(), "-inf", f"({now_ms + 1}", "BYSCORE", "LIMIT", 0, limit)
        rows = await asyncio.gather(*(call("HMGET", keys.MESSAGE(i), "recipient", "session", "lane") for i in ids))
        return [
            Job(message_id=i, recipient=row[0] or "", session_id=row[1] or "", phone=row[2] or "")
            for i, row in zip(ids, rows, strict=True)
        ]

    async def jobs_until(self, at_ms: int) -> int:
        """How many messages without a queue are due by then."""
        return int(await self._connection.call("ZCOUNT", keys.GATEWAY_JOBS(), "-inf", at_ms))

    async def route(self, moves: list[dict[str, Any]]) -> int:
        return int((await self._run("route_messages", moves=moves))["routed"])

    async def last_talked(self, recipients: list[str]) -> list[str | None]:
        """The session that was last chosen for each, or that last talked to it."""
        call = self._connection.call
        rows = await asyncio.gather(*(call("MGET", keys.ROUTED(r), keys.RECIPIENT(r)) for r in recipients))
        return [chosen or talked for chosen, talked in rows]

    async def talked(self, recipient: str, session_id: str) -> None:
        """Somebody wrote to this session."""
        await self._connection.call("SET", keys.RECIPIENT(recipient), session_id, "EX", _REMEMBER_S)

    # limits ----------------------------------------------------------------------------------------------------
    async def override(self, name: str) -> dict[str, Any] | None:
        """What was set by hand for a session, or for all (`global`)."""
        text = await self._connection.call("GET", keys.LIMITS(name))
        return msgspec.json.decode(text) if text else None

    async def set_override(self, name: str, value: dict[str, Any] | None) -> None:
        if value is None:
            await self._connection.call("DEL", keys.LIMITS(name))
        else:
            await self._connection.call("SET", keys.LIMITS(name), msgspec.json.encode(value).decode())

    async def sessions_of(self, lane: str) -> list[str]:
        found = await self._connection.call("SMEMBERS", keys.PHONE_SESSION(lane))
        return sorted(found)
