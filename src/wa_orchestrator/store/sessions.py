"""Sessions in the store: typed methods around the scripts that change them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.model.session import Glance, Session, Status, Wanted, Watched, states_that_may_become
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import BATCH, Connection, batched
from wa_orchestrator.store.proxies import address_fields

# How long a half-made session may exist: starting a worker takes about a second, a queue of starts a few more.
CONFIRM_WITHIN_MS = 60_000
# A store that restarts is back within seconds; a repeated reservation finds its first result by its token.
_RETRY_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.5, 3.0)

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Reservation:
    session_id: str
    proxy_id: str


@dataclass(frozen=True, kw_only=True)
class SessionRequest:
    """What somebody asks for when provisioning."""

    token: str
    maker: str = ""
    session_id: str = ""
    phone: str = ""
    proxy_id: str = ""
    proxy_address: ProxyAddress | None = None
    allow_additional: bool = False
    rebind: bool = False
    label: str = ""
    metadata: dict[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class EventEffect:
    """What a worker's event does to its session; decided by the projector."""

    status: Status | None = None
    reason: str = ""
    fields: dict[str, str | int] | None = None
    qr: str = ""
    qr_ms: int = 0
    unlink: bool = False
    park: bool = False
    command_id: str = ""
    result: str = ""
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class EventNumber:
    """Which event of which numbering; without a number it cannot be recognised as a repeat."""

    at: int
    seq: int | None = None
    stream: str = ""


@dataclass(frozen=True, kw_only=True)
class ConnectedAs:
    phone: str
    jid: str = ""
    lid: str = ""
    name: str = ""
    fingerprint: str = ""


class SessionStore:
    """The registry."""

    def __init__(self, connection: Connection, clock: Clock, *, slots_per_proxy: int, sessions_per_phone: int) -> None:
        self._connection = connection
        self._clock = clock
        self._cap = slots_per_proxy
        self._per_phone = sessions_per_phone

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {"now": self._clock.now_ms(), "cap": self._cap, **arguments})

    async def _run_until_answered(self, script: str, **arguments: Any) -> dict[str, Any]:
        """For scripts whose repeat is harmless: an answer lost with the connection must not become a doubt."""
        for pause in _RETRY_PAUSES_S:
            try:
                return await self._run(script, **arguments)
            except StoreUnavailable:
                await asyncio.sleep(pause)
        return await self._run(script, **arguments)

    # making and ending -----------------------------------------------------------------------------------------
    async def reserve(self, request: SessionRequest, *, scan_by: int) -> Reservation:
        """Record, slot and temporary binding in one step; raises why not."""
        answer = await self._run_until_answered(
            "reserve_session",
            token=request.token,
            maker=request.maker,
            sessionId=request.session_id,
            phone=request.phone,
            proxy=request.proxy_id,
            proxyFields=address_fields(request.proxy_address, self._clock) if request.proxy_address else None,
            allowAdditional=request.allow_additional,
            rebind=request.rebind,
            maxPerPhone=self._per_phone,
            label=request.label,
            metadata=msgspec.json.encode(request.metadata or {}).decode(),
            confirmBy=self._clock.now_ms() + CONFIRM_WITHIN_MS,
            scanBy=scan_by,
        )
        return Reservation(session_id=answer["sessionId"], proxy_id=answer["proxy"])

    async def confirm(self, session_id: str) -> None:
        await self._run_until_answered("confirm_session", id=session_id)

    async def delete(
        self, session_id: str, *, keep_s: int, forget: bool = False, only_unconfirmed: bool = False
    ) -> bool:
        """True when this call removed it; False when it was gone already."""
        answer = await self._run_until_answered(
            "delete_session", id=session_id, forget=forget, keepS=keep_s, onlyUnconfirmed=only_unconfirmed
        )
        return bool(answer["deleted"])

    async def release(self, session_id: str, *, reason: str, status: Status, only_unscanned: bool = False) -> bool:
        answer = await self._run_until_answered(
            "release_session", id=session_id, reason=reason, status=status, onlyUnscanned=only_unscanned
        )
        return bool(answer["released"])

    async def order(
        self,
        session_id: str,
        order: str,
        *,
        reason: str = "",
        only_if_run_order: int | None = None,
        scan_by: int = 0,
        forget: bool = False,
    ) -> bool:
        """start, restart, stop or delete; True when it changed anything."""
        answer = await self._run(
            "order_session",
            id=session_id,
            order=order,
            reason=reason,
            onlyIfRunOrder=only_if_run_order,
            scanBy=scan_by,
            forget=forget,
        )
        return bool(answer["changed"])

    async def move(
        self, session_id: str, *, reason: str, from_proxy: str = "", to_proxy: str = "", healthy: bool = False
    ) -> dict[str, Any]:
        """To another proxy. `from_proxy` makes a repeat harmless; without `to_proxy` the least loaded is chosen."""
        return await self._run(
            "move_session", id=session_id, reason=reason, to=to_proxy, healthy=healthy, **{"from": from_proxy}
        )

    async def end(self, session_id: str, *, reason: str) -> None:
        """It cannot run as it is: `failed`, until the operator starts it again. Its slot stays."""
        await self._run("end_session", id=session_id, reason=reason)

    async def begin_run(self, session_id: str, *, reason: str) -> None:
        """Nothing that an earlier run reported counts any more: the session is not connected until it says so."""
        await self._run("begin_run", id=session_id, reason=reason)

    async def note_worker(self, session_id: str, *, ran_order: int, error: str = "") -> None:
        """Tells other orchestrators what became of the worker."""
        await self._run("note_worker", id=session_id, ranOrder=ran_order, error=error)

    async def mark_unhealthy(self, session_id: str, run_order: int, *, reason: str) -> bool:
        answer = await self._run("mark_unhealthy", id=session_id, runOrder=run_order, reason=reason)
        return bool(answer["changed"])

    async def watched(self, ids: Iterable[str]) -> list[Watched]:
        """Sessions with what their last pings said."""
        return await self._read(sorted(ids), _as_watched)

    async def stop_waiting(self, session_id: str) -> bool:
        answer = await self._run("stop_waiting", id=session_id)
        return bool(answer["resumed"])

    # events ----------------------------------------------------------------------------------------------------
    async def bind(self, session_id: str, number: EventNumber, connected: ConnectedAs) -> str:
        """CONNECTED; the outcome is described in bind_session.lua."""
        data = {"phone": connected.phone, "fingerprint": connected.fingerprint}
        answer = await self._run(
            "bind_session",
            id=session_id,
            seq=number.seq,
            stream=number.stream,
            eventAt=number.at,
            phone=connected.phone,
            jid=connected.jid or f"{connected.phone}@s.whatsapp.net",
            lid=connected.lid,
            name=connected.name,
            fingerprint=connected.fingerprint,
            allowedFrom=sorted(states_that_may_become(Status.CONNECTED)),
            maxPerPhone=self._per_phone,
            data=msgspec.json.encode(data).decode(),
        )
        return str(answer["outcome"])

    async def apply_event(
        self, session_id: str, number: EventNumber, *, kind: str, effect: EventEffect, data: object
    ) -> dict[str, Any]:
        """Any other event: noted once, applied if the table of moves allows it."""
        return await self._run(
            "apply_event",
            id=session_id,
            seq=number.seq,
            stream=number.stream,
            eventAt=number.at,
            type=kind,
            data=msgspec.json.encode(data).decode(),
            allowedFrom=sorted(states_that_may_become(effect.status)) if effect.status else [],
            allowedFromLinked=sorted(states_that_may_become(effect.status, linked=True)) if effect.status else [],
            status=effect.status,
            reason=effect.reason,
            set=effect.fields or {},
            qr=effect.qr,
            qrMs=effect.qr_ms,
            unlink=effect.unlink,
            park=effect.park,
            commandId=effect.command_id,
            result=effect.result,
            quiet=effect.quiet,
        )

    # reading ---------------------------------------------------------------------------------------------------
    async def get(self, session_id: str) -> Session | None:
        record, waiting = await asyncio.gather(
            self._connection.call("HGETALL", keys.SESSION(session_id)),
            self._connection.call("SISMEMBER", keys.SESSIONS_WAITING(), session_id),
        )
        return as_session(record, waiting=bool(waiting)) if record else None

    async def was_deleted(self, session_id: str) -> bool:
        return bool(await self._connection.call("EXISTS", keys.SESSION_DELETED(session_id)))

    async def all_ids(self) -> list[str]:
        """Newest last."""
        ids: list[str] = await self._connection.call("ZRANGE", keys.SESSIONS_ALL(), 0, -1)
        return ids

    async def all(self) -> list[Session]:
        waiting, ids = await asyncio.gather(self.waiting(), self.all_ids())
        return await self.many(ids, waiting=waiting)

    async def many(self, ids: Iterable[str], *, waiting: frozenset[str] = frozenset()) -> list[Session]:
        return await self._read(list(ids), lambda record: as_session(record, waiting=record["id"] in waiting))

    async def glances(self) -> list[Glance]:
        """All sessions with no more than counting and choosing need: a fifth of what reading them costs."""
        found: list[Glance] = []
        for part in batched(await self.all_ids()):
            rows = await asyncio.gather(
                *[self._connection.ask("HMGET", keys.SESSION(i), "status", "wanted", "phone") for i in part]
            )
            found += [
                Glance(session_id, Status(row[0]), Wanted(row[1]), row[2] or "")
                for session_id, row in zip(part, rows, strict=True)
                if row[0]
            ]
        return found

    async def _read(self, ids: list[str], made_of: Callable[[dict[str, str]], T]) -> list[T]:
        """What those that exist are made into; in parts, so that nobody else waits long while thousands are read."""
        found: list[T] = []
        for part in batched(ids):
            records = await asyncio.gather(*[self._connection.ask("HGETALL", keys.SESSION(i)) for i in part])
            found += [made_of(record) for record in records if record]
        return found

    async def unsettled(self, *, starting_ms: int) -> tuple[set[str], int]:
        """Sessions whose worker is not as wanted, as the store knows it; and how many workers are just starting."""
        count = await self._connection.call("ZCARD", keys.SESSIONS_ALL())
        ids: set[str] = set()
        starting = 0
        for first in range(0, count, BATCH):
            answer = await self._run("unsettled_sessions", first=first, last=first + BATCH - 1, startingMs=starting_ms)
            ids.update(answer["ids"])
            starting += answer["starting"]
        return ids, starting

    async def waiting(self) -> frozenset[str]:
        return frozenset(await self._connection.call("SMEMBERS", keys.SESSIONS_WAITING()))

    async def overdue_unconfirmed(self) -> list[str]:
        return await self._overdue(keys.SESSIONS_UNCONFIRMED())

    async def overdue_unscanned(self) -> list[str]:
        return await self._overdue(keys.SESSIONS_UNSCANNED())

    async def unconfirmed(self) -> frozenset[str]:
        return frozenset(await self._connection.call("ZRANGE", keys.SESSIONS_UNCONFIRMED(), 0, -1))

    async def auth_was_discarded(self, session_id: str) -> None:
        await self._connection.call("HDEL", keys.SESSION(session_id), "discardAuth")

    async def count_restart(self, session_id: str) -> None:
        await self._run("count_restart", id=session_id)

    async def describe(self, session_id: str, *, metadata: dict[str, str]) -> None:
        """Other notes of its owner; they mean nothing to us."""
        await self._run("describe_session", id=session_id, metadata=msgspec.json.encode(metadata).decode())

    async def _overdue(self, key: str) -> list[str]:
        ids: list[str] = await self._connection.call("ZRANGE", key, "-inf", self._clock.now_ms(), "BYSCORE")
        return ids

    async def qr(self, session_id: str) -> dict[str, Any] | None:
        text = await self._connection.call("GET", keys.SESSION_QR(session_id))
        return msgspec.json.decode(text) if text else None

    async def first_connected_at(self, phone: str) -> int | None:
        value = await self._connection.call("HGET", keys.PHONE(phone), "firstConnectedAt")
        return int(value) if value else None

    async def bound_proxy(self, phone: str) -> str | None:
        value: str | None = await self._connection.call("GET", keys.PHONE_PROXY(phone))
        return value

    async def ask_to_reconcile(self, session_id: str) -> None:
        """Tells whoever runs the workers to look at this session now instead of at the next tick."""
        await self._connection.call("PUBLISH", keys.RECONCILE(), session_id)


def _as_watched(record: dict[str, str]) -> Watched:
    return Watched(
        session=as_session(record),
        unacked=int(record.get("unacked") or 0),
        last_received_at=int(record["lastReceivedAt"]) if record.get("lastReceivedAt") else None,
        rescued_at=int(record["rescuedAt"]) if record.get("rescuedAt") else None,
    )


def as_session(record: dict[str, str], *, waiting: bool = False) -> Session:
    """The record of a session as written by the scripts."""

    def number(name: str) -> int | None:
        value = record.get(name, "")
        return int(float(value)) if value else None

    return Session(
        session_id=record["id"],
        status=Status(record["status"]),
        wanted=Wanted(record["wanted"]),
        created_at=number("created") or 0,
        proxy_id=record.get("proxy", ""),
        proxy_pinned=record.get("pinned") == "1",
        phone=record.get("phone", ""),
        expected_phone=record.get("expectedPhone", ""),
        label=record.get("label", ""),
        metadata=msgspec.json.decode(record.get("metadata") or "{}", type=dict[str, str]),
        reason=record.get("reason", ""),
        jid=record.get("jid", ""),
        lid=record.get("lid", ""),
        push_name=record.get("name", ""),
        fingerprint=record.get("fingerprint", ""),
        started_at=number("startedAt"),
        connected_at=number("connectedAt"),
        last_ping=number("lastPing"),
        last_disconnect_at=number("lastDisconnectAt"),
        last_disconnect_reason=record.get("lastDisconnectReason", ""),
        last_disconnect_code=record.get("lastDisconnectCode", ""),
        restarts=number("restarts") or 0,
        run_order=number("runOrder") or 1,
        worker_rss_bytes=number("rssBytes"),
        connection=record.get("connection", ""),
        waiting_for_proxy=waiting,
        ran_order=number("ranOrder") or 0,
        start_error=record.get("startError", ""),
        start_error_at=number("startErrorAt") or 0,
        maker=record.get("maker", ""),
        forget=record.get("forget") == "1",
        discard_auth=record.get("discardAuth") == "1",
    )
