"""Webhooks in the store: the subscriptions, how far each has come, what waits aside and what was given up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import WebhookNotFound
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.journal import JournalEntry

MOST_WEBHOOKS = 2000
_JSON_FIELDS = ("types", "sessions", "metadata", "headers", "options")


class Parked(msgspec.Struct, rename="camel", frozen=True):
    """A session whose events a receiver refuses while it takes others."""

    failures: int = 0
    since: int = 0
    next_try: int = 0
    error: str = ""


class Letter(msgspec.Struct, rename="camel", frozen=True):
    """A dead letter: an event that was given up."""

    session: str
    event: str
    dead_at: int
    reason: str
    tries: int

    def entry(self) -> JournalEntry:
        return JournalEntry.from_json(self.event)


@dataclass
class LaneProgress:
    add: dict[int, str] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)
    state: Parked | None = None


@dataclass
class Progress:
    """What happened since the last settling; several add up to one."""

    lanes: dict[str, LaneProgress] = field(default_factory=dict)
    dead: dict[int, Letter] = field(default_factory=dict)
    fields: dict[str, str] = field(default_factory=dict)
    delivered: int = 0
    failed: int = 0
    disable: str = ""
    tell: str = ""
    restart: bool = False

    @property
    def dead_to_tell(self) -> int:
        return sum(not letter.entry().type.startswith("webhook.") for letter in self.dead.values())

    def lane(self, session: str) -> LaneProgress:
        return self.lanes.setdefault(session, LaneProgress())


class WebhookStore:
    def __init__(self, connection: Connection, clock: Clock, *, most_dead: int, most_waiting: int) -> None:
        self._connection = connection
        self._clock = clock
        self._most_dead = most_dead
        self._most_waiting = most_waiting

    # subscriptions ----------------------------------------------------------------------------------------------
    async def create(self, webhook: Webhook, *, after: int | None = None) -> None:
        fields = written(webhook)
        await self._run("webhook_save", id=webhook.webhook_id, create=True, fields=fields, most=MOST_WEBHOOKS,
                        after=after)  # fmt: skip

    async def change(self, webhook_id: str, fields: Mapping[str, Any]) -> None:
        """Fields as in `Webhook`; only those that change."""
        await self._run("webhook_save", id=webhook_id, create=False, fields=packed(fields))

    async def delete(self, webhook_id: str) -> bool:
        return bool((await self._run("webhook_delete", id=webhook_id))["deleted"])

    async def find(self, webhook_id: str) -> Webhook | None:
        record, dead = (
            self._connection.ask("HGETALL", keys.WEBHOOK(webhook_id)),
            self._connection.ask("ZCARD", keys.WEBHOOK_DEAD_ORDER(webhook_id)),
        )
        found = await record
        count = await dead
        return read(found, dead_now=int(count)) if found else None

    async def get(self, webhook_id: str) -> Webhook:
        found = await self.find(webhook_id)
        if found is None:
            raise WebhookNotFound
        return found

    async def all(self) -> list[Webhook]:
        """Oldest first."""
        ids = await self._connection.call("ZRANGE", keys.WEBHOOKS_ALL(), 0, -1)
        asked = [(self._connection.ask("HGETALL", keys.WEBHOOK(one)),
                  self._connection.ask("ZCARD", keys.WEBHOOK_DEAD_ORDER(one))) for one in ids]  # fmt: skip
        found = [(await record, await dead) for record, dead in asked]
        return [read(record, dead_now=int(dead)) for record, dead in found if record]

    # delivery ---------------------------------------------------------------------------------------------------
    async def settle(self, webhook_id: str, progress: Progress, *, owner: str, cursor: int) -> dict[str, int]:
        """How much waits aside for each session that is named.

        Raises LeaseLost when another orchestrator leads now, WebhookNotFound when it was deleted.
        """
        lanes = [
            {"session": session, "add": [[str(number), event] for number, event in lane.add.items()],
             "done": [str(number) for number in lane.done],
             "state": msgspec.json.encode(lane.state).decode() if lane.state else ""}
            for session, lane in progress.lanes.items()
        ]  # fmt: skip
        dead = [{"number": str(number), "letter": msgspec.json.encode(letter).decode()}
                for number, letter in progress.dead.items()]  # fmt: skip
        answer = await self._run(
            "webhook_settle", id=webhook_id, owner=owner, cursor=str(cursor), restart=progress.restart, lanes=lanes,
            dead=dead, deadToTell=progress.dead_to_tell, fields=progress.fields, delivered=progress.delivered,
            failed=progress.failed, disable=progress.disable,
            tell=progress.tell, mostDead=self._most_dead, mostWaiting=self._most_waiting,
        )  # fmt: skip
        return {name: int(size) for name, size in dict(answer["sizes"] or {}).items()}

    async def changes(self) -> int:
        """A count that moves whenever any webhook was changed."""
        return int(await self._connection.call("GET", keys.WEBHOOKS_CHANGED()) or 0)

    async def parked(self, webhook_id: str) -> dict[str, Parked]:
        found = await self._connection.call("HGETALL", keys.WEBHOOK_PARKED(webhook_id))
        return {session: msgspec.json.decode(state, type=Parked) for session, state in found.items()}

    async def waiting(self, webhook_id: str, session: str, *, limit: int) -> list[JournalEntry]:
        """The events of a parked session, oldest first."""
        key = keys.WEBHOOK_WAITING(f"{webhook_id}:{session}")
        return [JournalEntry.from_json(text) for text in await self._connection.call("ZRANGE", key, 0, limit - 1)]

    # dead letters -----------------------------------------------------------------------------------------------
    async def dead(self, webhook_id: str, *, before: int | None, limit: int) -> list[Letter]:
        """Newest first; `before`: of smaller numbers only, for the next page."""
        top = f"({before}" if before is not None else "+inf"
        order = keys.WEBHOOK_DEAD_ORDER(webhook_id)
        numbers = await self._connection.call("ZRANGE", order, top, "-inf", "BYSCORE", "REV", "LIMIT", 0, limit)
        if not numbers:
            return []
        texts = await self._connection.call("HMGET", keys.WEBHOOK_DEAD(webhook_id), *numbers)
        return [msgspec.json.decode(text, type=Letter) for text in texts if text]

    async def redrive(
        self, webhook_id: str, numbers: Sequence[int] | None, *, drop: bool, limit: int
    ) -> tuple[int, int]:
        """How many were moved, and how many are left. `drop`: thrown away instead."""
        wanted = [str(number) for number in numbers] if numbers is not None else None
        answer = await self._run("webhook_redrive", id=webhook_id, numbers=wanted, drop=drop, limit=limit)
        return int(answer["moved"]), int(answer["left"])

    # sessions, as webhooks look at them -----------------------------------------------------------------------------
    async def session_facts(self, session_id: str) -> dict[str, Any]:
        """phone, jid, lid, name, label, metadata; of a deleted session its metadata, as long as they are kept."""
        names = ("phone", "jid", "lid", "name", "label", "metadata")
        asked = self._connection.ask("HMGET", keys.SESSION(session_id), *names)
        kept = self._connection.ask("GET", keys.SESSION_METADATA_KEPT(session_id))
        record = dict(zip(names, await asked, strict=True))
        metadata = record["metadata"] or await kept or "{}"
        if not kept.done():
            await kept
        return {**{name: value or "" for name, value in record.items()}, "metadata": msgspec.json.decode(metadata)}

    async def trim_journal(self, *, length: int, backlog: int, before: int) -> int:
        """How many entries were cut off."""
        answer = await self._run("trim_journal", length=length, backlog=backlog, before=before)
        return int(answer["trimmed"])

    async def _run(self, name: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, name, {"now": self._clock.now_ms(), **arguments})


def packed(fields: Mapping[str, Any]) -> dict[str, str]:
    """As the record holds them."""
    found: dict[str, str] = {}
    for name, value in fields.items():
        if name in _JSON_FIELDS:
            found[name] = msgspec.json.encode(value).decode()
        else:
            found[name] = ("1" if value else "0") if isinstance(value, bool) else str(value)
    return found


def written(webhook: Webhook) -> dict[str, str]:
    names = ("url", "secret", "label", "format", "enabled", "by", *_JSON_FIELDS)
    return packed({name: getattr(webhook, name) for name in names})


def read(record: Mapping[str, str], *, dead_now: int = 0) -> Webhook:
    def number(name: str) -> int:
        return int(float(record.get(name) or 0))

    return Webhook(
        webhook_id=record["id"],
        url=record.get("url", ""),
        secret=record.get("secret", ""),
        label=record.get("label", ""),
        types=tuple(msgspec.json.decode(record.get("types") or "[]")),
        sessions=tuple(msgspec.json.decode(record.get("sessions") or "[]")),
        metadata=msgspec.json.decode(record.get("metadata") or "{}"),
        headers=msgspec.json.decode(record.get("headers") or "{}"),
        format=record.get("format", ""),
        options=msgspec.json.decode(record.get("options") or "{}"),
        enabled=record.get("enabled") == "1",
        disabled_reason=record.get("disabledReason", ""),
        by=record.get("by", ""),
        created_at=number("createdAt"),
        updated_at=number("updatedAt"),
        version=number("version"),
        cursor=number("cursor"),
        waiting=number("waiting"),
        failures=number("failures"),
        failing_since=number("failingSince"),
        next_try=number("nextTry"),
        last_status=number("lastStatus") or None,
        last_error=record.get("lastError", ""),
        last_try_at=number("lastTryAt"),
        last_delivered_at=number("lastDeliveredAt"),
        last_number=number("lastNumber"),
        delivered=number("delivered"),
        failed=number("failed"),
        dead=number("dead"),
        dead_now=dead_now,
        dead_dropped=number("deadDropped"),
    )
