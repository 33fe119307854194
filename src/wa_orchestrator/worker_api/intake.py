"""Takes workers' events in: checks who speaks, applies the event once, starts what follows from it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import msgspec
import structlog

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import InvalidJson, InvalidSignature, OrchestratorError, SessionDeleted
from wa_orchestrator.inbound.inbox import INBOUND_EVENTS, Inbox
from wa_orchestrator.logs import short_phone
from wa_orchestrator.metrics.instruments import worker_events
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.proxies.pool import ProxyPool
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.store import Store
from wa_orchestrator.store.sessions import EventNumber
from wa_orchestrator.suppression.inbound import OptWordListener
from wa_orchestrator.worker_api.bounds import kept_data
from wa_orchestrator.worker_api.malformed import malformed
from wa_orchestrator.worker_api.projector import Meaning, WorkerEvent, meaning_of
from wa_orchestrator.worker_api.receipts import MESSAGE_EVENTS, Receipts
from wa_orchestrator.worker_api.signature import check_signature, session_secret

log = structlog.get_logger()

_decoder = msgspec.json.Decoder(WorkerEvent)
# outcomes of CONNECTED after which the worker must not go on as it is
_ENDED = {"wrong_phone", "phone_full", "sticky_full"}
_FOLLOW_UP = {"moved", *_ENDED}


class Intake:
    def __init__(
        self,
        *,
        store: Store,
        lifecycle: Lifecycle,
        pool: ProxyPool,
        clock: Clock,
        webhook_secret: str,
        opt_words: OptWordListener,
    ) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._pool = pool
        self._clock = clock
        self._webhook_secret = webhook_secret
        self._follow_ups: set[asyncio.Task[None]] = set()
        self._receipts = Receipts(store)
        self._inbox = Inbox(store)
        self._opt_words = opt_words

    def check_worker(self, session_id: str, body: bytes, headers: dict[str, str]) -> None:
        """Raises InvalidSignature unless this session's worker sent the request."""
        check_signature(
            secret=session_secret(self._webhook_secret, session_id),
            body=body,
            now_ms=self._clock.now_ms(),
            timestamp=headers.get("x-webhook-timestamp"),
            signature=headers.get("x-webhook-signature"),
            plain_secret=headers.get("x-webhook-secret"),
        )

    async def event(self, body: bytes, headers: dict[str, str]) -> dict[str, Any]:
        """One event from a worker; the answer says whether it was known already."""
        event = self._decode(body, headers)
        meaning = meaning_of(event, now_ms=self._clock.now_ms())
        worker_events[event.type] += 1  # only known types come this far
        number = EventNumber(at=event.timestamp, seq=event.seq, stream=event.stream)
        if event.type in MESSAGE_EVENTS:
            # before its number is remembered: should we die in between, the repeat brings it again
            await self._receipts.take(event)
            if event.type == "MESSAGE_RECEIVED":
                await self._opt_words.take(event.session_id, event.data, at=event.timestamp)
        if event.type in INBOUND_EVENTS:
            await self._inbox.take(event)
        if meaning.connected:
            outcome = await self._connected(event, meaning, number)
        else:
            data = kept_data(event.type, event.data if meaning.note is None else meaning.note)
            answer = await self._store.sessions.apply_event(
                event.session_id, number, kind=event.type, effect=meaning.effect, data=data
            )
            outcome = str(answer["outcome"])
            self._follow(event, meaning, outcome)
        if not meaning.effect.quiet:
            log.info("worker_event", session_id=event.session_id, type=event.type, outcome=outcome)
        return {"accepted": True, "duplicate": outcome == "repeat"}

    def _decode(self, body: bytes, headers: dict[str, str]) -> WorkerEvent:
        """The event, once its sender is proved. Nothing about a session is told to a stranger."""
        try:
            event = _decoder.decode(body)
        except msgspec.ValidationError as error:
            # the sender could not be checked without a session id, so this is no more than "not you"
            raise malformed("event", error) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidJson from None
        try:
            checked_session_id(event.session_id)
        except OrchestratorError:
            raise InvalidSignature from None
        self.check_worker(event.session_id, body, headers)
        return event

    async def _connected(self, event: WorkerEvent, meaning: Meaning, number: EventNumber) -> str:
        assert meaning.connected is not None  # noqa: S101 - narrows the type
        if await self._store.sessions.was_deleted(event.session_id):
            raise SessionDeleted
        outcome = await self._store.sessions.bind(event.session_id, number, meaning.connected)
        tell = log.warning if outcome in _ENDED else log.info
        tell(
            "session_not_accepted" if outcome in _ENDED else "session_connected",
            session_id=event.session_id,
            phone=short_phone(meaning.connected.phone),
            outcome=outcome,
        )
        if outcome in _FOLLOW_UP:
            self._later(self._settle(event.session_id))
        return outcome

    def _follow(self, event: WorkerEvent, meaning: Meaning, outcome: str) -> None:
        if outcome in {"repeat", "late"}:
            return
        if meaning.proxy_suspect:
            self._later(self._look_at_proxy(event.session_id, meaning.proxy_suspect))
        elif meaning.effect.park:
            self._later(self._settle(event.session_id))

    async def _settle(self, session_id: str) -> None:
        await self._lifecycle.carry_out(session_id)

    async def _look_at_proxy(self, session_id: str, error: str) -> None:
        await self._pool.suspect(session_id, error=error)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs beside the answer; what is lost with this process, the reconciler finds again."""
        task = asyncio.create_task(self._guard(work))
        self._follow_ups.add(task)
        task.add_done_callback(self._follow_ups.discard)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except OrchestratorError as error:
            log.warning("follow_up_failed", code=error.code, error=error.message)

    async def close(self) -> None:
        """Waits for what was begun."""
        if self._follow_ups:
            await asyncio.wait(self._follow_ups, timeout=15)
