"""Messages in the store: accepted, looked up, cancelled, driven again."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection


class Stamp:
    """What every message script needs besides its own arguments: now, today, how long ended ones and chats are kept."""

    def __init__(self, clock: Clock, *, timezone: str = "UTC", keep_days: int = 30, inbox_keep_days: int = 30) -> None:
        self._clock = clock
        self._zone = ZoneInfo(timezone)
        self._keep_ms = keep_days * 86_400_000
        self._inbox_ms = inbox_keep_days * 86_400_000
        self._minute = -1
        self._today = ""

    def arguments(self) -> dict[str, Any]:
        now = self._clock.now_ms()
        # the date changes on a full minute in every zone
        if now // 60_000 != self._minute:
            self._minute = now // 60_000
            self._today = datetime.fromtimestamp(now / 1000, UTC).astimezone(self._zone).date().isoformat()
        return {"now": now, "today": self._today, "keepMs": self._keep_ms, "inboxMs": self._inbox_ms}

    def tomorrow_ms(self) -> int:
        """When the present day ends, in the installation's time zone."""
        today = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).astimezone(self._zone).date()
        return int(datetime.combine(today + timedelta(days=1), time.min, self._zone).timestamp() * 1000)

    @property
    def today(self) -> str:
        return str(self.arguments()["today"])


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that passed every check of form."""

    message_id: str
    wa_message_id: str
    to: str
    recipient: str
    content: str
    session_id: str = ""
    phone: str = ""
    priority: int = 2
    schedule_at: int | None = None
    expires_at: int | None = None
    defer: bool = False
    by: str = ""
    key_id: str = ""
    key_rate: tuple[int, int] = (0, 1)  # messages a minute (0: no limit of its own), how many at once
    reference: str = ""
    traceparent: str = ""
    idempotency_key: str = ""
    fingerprint: str = ""


class MessageStore:
    def __init__(
        self,
        connection: Connection,
        stamp: Stamp,
        *,
        rate_per_second: int = 0,
        rate_burst: int = 1,
        flood_per_minute: int = 0,
        recipient_cap: int = 0,
    ) -> None:
        self._connection = connection
        self._stamp = stamp
        self._rate = (rate_per_second, rate_burst)
        self._flood = flood_per_minute
        self._recipient_cap = recipient_cap

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {**self._stamp.arguments(), **arguments})

    async def enqueue(self, message: NewMessage) -> dict[str, Any]:
        """One step: accepted and queued, or refused with the reason."""
        arguments: dict[str, Any] = {
            **self._stamp.arguments(),
            "id": message.message_id,
            "wa": message.wa_message_id,
            "to": message.to,
            "recipient": message.recipient,
            "content": message.content,
            "session": message.session_id,
            "phone": message.phone,
            "priority": message.priority,
            "scheduleAt": message.schedule_at,
            "expiresAt": message.expires_at,
            "defer": message.defer,
            "by": message.by,
            "reference": message.reference,
            "ratePerSecond": self._rate[0],
            "rateBurst": self._rate[1],
            "floodPerMinute": self._flood,
        }
        if message.traceparent:
            arguments["traceparent"] = message.traceparent
        if self._recipient_cap:
            arguments.update(recipientCap=self._recipient_cap, tomorrow=self._stamp.tomorrow_ms())
        if message.key_rate[0]:
            per_minute, burst = message.key_rate
            arguments["keyRate"] = {"name": f"key:{message.key_id}", "perMinute": per_minute, "burst": burst}
        if message.idempotency_key:
            arguments["idempotency"] = {"key": message.idempotency_key, "fingerprint": message.fingerprint}
        return await scripts.run(self._connection, "enqueue_message", arguments)

    async def cancel(self, message_id: str, *, reason: str) -> str:
        answer = await self._run("cancel_message", id=message_id, reason=reason)
        return str(answer["state"])

    async def redrive(self, message_id: str) -> str:
        answer = await self._run("redrive_message", id=message_id)
        return str(answer["state"])

    async def receipt(self, message_id: str, *, session_id: str, status: str, at: int, error: str = "") -> str:
        answer = await self._run(
            "message_receipt", id=message_id, session=session_id, status=status, at=at, error=error
        )
        return str(answer["outcome"])

    async def expire_due(self, *, limit: int = 500) -> int:
        return int((await self._run("expire_messages", limit=limit))["expired"])

    # reading ---------------------------------------------------------------------------------------------------
    async def get(self, message_id: str) -> dict[str, str] | None:
        found: dict[str, str] = await self._connection.call("HGETALL", keys.MESSAGE(message_id))
        return found or None

    async def many(self, ids: list[str]) -> list[dict[str, str]]:
        found = await asyncio.gather(*(self._connection.call("HGETALL", keys.MESSAGE(i)) for i in ids))
        return [m for m in found if m]

    async def newest(self, *, before: str, limit: int) -> list[str]:
        """Ids, newest first, from just after `before` (an id of the page before; empty: the newest)."""
        start = 0
        if before:
            rank = await self._connection.call("ZREVRANK", keys.MESSAGES_ALL(), before)
            start = 0 if rank is None else int(rank) + 1
        ids: list[str] = await self._connection.call("ZREVRANGE", keys.MESSAGES_ALL(), start, start + limit - 1)
        return ids

    async def dead(self, *, limit: int) -> list[str]:
        ids: list[str] = await self._connection.call("ZREVRANGE", keys.MESSAGES_DEAD(), 0, limit - 1)
        return ids

    async def forget_old(self, *, before_ms: int) -> int:
        """Takes ids of long-ended messages out of the lists; the messages themselves expire."""
        removed, _ = await asyncio.gather(
            self._connection.call("ZREMRANGEBYSCORE", keys.MESSAGES_ALL(), "-inf", before_ms),
            self._connection.call("ZREMRANGEBYSCORE", keys.MESSAGES_DEAD(), "-inf", before_ms),
        )
        return int(removed)

    async def counts(self) -> dict[str, Any]:
        """Numbers at a glance: today's, this minute's, and what waits."""
        minute = str(self._stamp.arguments()["now"] // 60_000)
        call = self._connection.call
        day, now, last, jobs, dead, claimed = await asyncio.gather(
            call("HGETALL", keys.STATS_DAY(self._stamp.today)),
            call("HGETALL", keys.STATS_MINUTE(minute)),
            call("HGETALL", keys.STATS_MINUTE(str(int(minute) - 1))),
            call("ZCARD", keys.GATEWAY_JOBS()),
            call("ZCARD", keys.MESSAGES_DEAD()),
            call("ZCARD", keys.CLAIMS_EXPIRING()),
        )
        return {"today": _numbers(day), "minute": _numbers(now), "lastMinute": _numbers(last), "unrouted": jobs,
                "dead": dead, "claimed": claimed}  # fmt: skip


def _numbers(record: dict[str, str]) -> dict[str, int]:
    return {name: int(value) for name, value in record.items()}


def story_lines(record: dict[str, str]) -> list[dict[str, Any]]:
    return [msgspec.json.decode(line) for line in record.get("story", "").splitlines() if line]
