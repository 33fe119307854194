"""Accepts messages: checks the form, chooses the ids, queues in one store step, answers."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import msgspec

from wa_orchestrator.clock import Clock, iso
from wa_orchestrator.dispatcher.estimate import estimated_send_at
from wa_orchestrator.errors import InvalidBody, InvalidJson, TooManyRequests
from wa_orchestrator.gateway.chance import Chance
from wa_orchestrator.gateway.content import ContentReader, wa_id_of
from wa_orchestrator.gateway.recipient import recipient_jid, recipient_key
from wa_orchestrator.model.caller import Caller
from wa_orchestrator.model.limits import read_instant
from wa_orchestrator.model.phone import checked_phone
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.messages import NewMessage

_KEY = re.compile(r"^[\x21-\x7e]{1,255}$")
_TRACE = re.compile(r"[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")  # W3C Trace Context
_FURTHEST_MS = 366 * 86_400_000
_USUAL_PRIORITY = 2
_chance = Chance(9)


class SendBody(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """What `POST /send` takes, and each item of a bulk."""

    to: str
    message: str | dict[str, Any] | None = None
    text: str | None = None
    session_id: str | None = None
    phone: str | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    priority: int = _USUAL_PRIORITY
    schedule_at: str | int | None = None
    expires_at: str | int | None = None
    defer: bool = False
    reference: str | None = None
    idempotency_key: str | None = None


class Accepted(msgspec.Struct, frozen=True):
    body: dict[str, Any]
    replayed: bool


_decoder = msgspec.json.Decoder(SendBody)


def decode_send(raw: bytes) -> SendBody:
    try:
        return _decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise InvalidBody(f"{_field(str(error))}{error}.", details={"field": _path(str(error))}) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson from None


def _path(text: str) -> str:
    """The field that msgspec names: "… - at `$.to`", or the missing or unknown one."""
    found = re.search(r"at `\$\.?([^`]*)`", text) or re.search(r"field `([^`]+)`", text)
    return (found[1] if found else "") or "body"


def _field(text: str) -> str:
    return f"{_path(text)}: "


class Gateway:
    def __init__(self, *, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._content = ContentReader(max_text=settings.max_text_length, max_media_bytes=settings.max_media_bytes)

    async def accept(
        self,
        body: SendBody,
        *,
        caller: Caller,
        idempotency_key: str | None = None,
        traceparent: str | None = None,
        spread_to: int | None = None,
    ) -> Accepted:
        """Queued exactly once per idempotency key; raises why not, also when the caller may not use that session.

        `spread_to` is its time in a list that is spread out, unless it names its own. The caller did not say it, so it
        does not count when the same is sent again; and it holds though it has come meanwhile: one list, one treatment.
        """
        message = self._checked(body, caller=caller, key=idempotency_key or body.idempotency_key, spread_to=spread_to)
        # one that is malformed is passed over, as its standard asks
        if traceparent and _TRACE.fullmatch(traceparent):
            message = msgspec.structs.replace(message, traceparent=traceparent)
        try:
            answer = await self._store.messages.enqueue(message)
        except TooManyRequests as error:
            raise _with_retry_after(error, self._clock.now_ms()) from error
        estimate = estimated_send_at(
            answer["snapshot"], now_ms=answer["acceptedAt"], schedule_at=answer.get("scheduleAt")
        )
        return Accepted(
            body={
                "queued": True,
                "messageId": answer["messageId"],
                "sessionId": answer["session"] or None,
                "estimatedSendAt": iso(estimate),
            },
            replayed=answer["replayed"],
        )

    def _checked(self, body: SendBody, *, caller: Caller, key: str | None, spread_to: int | None) -> NewMessage:
        now = self._clock.now_ms()
        if (body.message is None) == (body.text is None):
            raise InvalidBody("Send either message or text.", details={"field": "message"})
        jid = recipient_jid(body.to)
        content = self._content.read(body.message if body.message is not None else body.text)
        if not 1 <= body.priority <= 3:
            raise InvalidBody("priority: 1 (first), 2 or 3.", details={"field": "priority"})
        session_id, phone = _sender(body, caller)
        schedule_at = _moment("scheduleAt", body.schedule_at, now=now)
        if schedule_at is None:
            schedule_at = spread_to
        elif schedule_at <= now:
            schedule_at = None
        expires_at = _moment("expiresAt", body.expires_at, now=now)
        if expires_at is not None and expires_at <= max(now, schedule_at or 0):
            raise InvalidBody("expiresAt: it must be later than now and than scheduleAt.",
                              details={"field": "expiresAt"})  # fmt: skip
        if body.reference is not None and len(body.reference) > 200:
            raise InvalidBody("reference: at most 200 characters.", details={"field": "reference"})
        number = _chance.hex()
        return NewMessage(
            message_id=f"msg_{number}",
            wa_message_id=wa_id_of(number),
            to=jid,
            recipient=recipient_key(jid),
            content=msgspec.json.encode(content).decode(),
            session_id=session_id,
            phone=phone,
            priority=body.priority,
            schedule_at=schedule_at,
            expires_at=expires_at,
            defer=body.defer,
            by=caller.by,
            key_id=caller.key_id,
            key_rate=(caller.rate_per_minute, caller.rate_burst),
            reference=body.reference or "",
            idempotency_key=_hashed(key, caller.by),
            fingerprint=_fingerprint(body) if key else "",
        )


def _sender(body: SendBody, caller: Caller) -> tuple[str, str]:
    given = [value for value in (body.session_id, body.phone, body.from_) if value is not None]
    if len(given) > 1:
        raise InvalidBody("Name the sender once: sessionId, phone or from.", details={"field": "sessionId"})
    wanted = None if body.session_id is None else checked_session_id(body.session_id)
    session_id = caller.sending_session(wanted, phone_named=wanted is None and bool(given))
    if session_id is not None:
        return session_id, ""
    return ("", checked_phone(given[0])) if given else ("", "")


def _moment(name: str, value: str | int | None, *, now: int) -> int | None:
    if value is None:
        return None
    moment = read_instant(name, value)
    if moment > now + _FURTHEST_MS:
        raise InvalidBody(f"{name}: at most a year ahead.", details={"field": name})
    return moment


def _hashed(key: str | None, by: str) -> str:
    """Keys of different callers do not meet; and a caller's key becomes no key name in the store."""
    if key is None:
        return ""
    if not _KEY.fullmatch(key):
        raise InvalidBody("Idempotency-Key: 1 to 255 visible ASCII characters.", details={"field": "Idempotency-Key"})
    return hashlib.sha256(f"{by}\0{key}".encode()).hexdigest()[:32]


def _fingerprint(body: SendBody) -> str:
    """The same for the same meaning: order and spacing of the JSON do not count, nor where the key was given."""
    meant = msgspec.structs.replace(body, idempotency_key=None)
    return hashlib.sha256(msgspec.json.encode(meant, order="sorted")).hexdigest()[:32]


def _with_retry_after(error: TooManyRequests, now_ms: int) -> TooManyRequests:
    details = error.details or {}
    wait_ms = details.get("retryAfterMs")
    if not isinstance(wait_ms, int | float):
        resets = details.get("resetsAt")
        wait_ms = resets - now_ms if isinstance(resets, int | float) else 1000
    return type(error)(error.message, details=error.details, retry_after_s=max(1, int(-(-wait_ms // 1000))))
