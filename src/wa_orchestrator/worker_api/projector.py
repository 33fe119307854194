"""Decides what a worker's event means for its session. Pure: no clock, no store."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import msgspec

from wa_orchestrator.errors import InvalidBody, InvalidPhone
from wa_orchestrator.logs import without_credentials
from wa_orchestrator.model.phone import checked_phone
from wa_orchestrator.model.session import Status
from wa_orchestrator.store.sessions import ConnectedAs, EventEffect

_DEFAULT_QR_MS = 60_000
_LONGEST_QR_MS = 10 * 60_000  # WhatsApp's own live 20 to 60 s
_LONGEST_QR = 1000  # a code has about 240 characters; far longer ones cannot be drawn
_LONGEST_TEXT = 2000  # whatever a worker says of itself; only texts of people are longer
_EXACT = 2**53  # larger numbers lose digits in the store's scripts
_END_OF_TIME_MS = 253_402_300_799_999  # the last moment of year 9999
# WhatsApp's last words: reconnecting would only start a fight or a ban (docs/concepts.md)
_FINAL_CODES = {402: "REFUSED", 403: "FORBIDDEN", 405: "VERSION_OUTDATED", 409: "REFUSED", 411: "MULTIDEVICE_MISMATCH",
                440: "REPLACED", 463: "RESTRICTED"}  # fmt: skip
_OLD_STATUS = {
    "qr": Status.QR_READY,
    "connecting": Status.PENDING,
    "connected": Status.CONNECTED,
    "open": Status.CONNECTED,
    "reconnecting": Status.RECONNECTING,
    "disconnected": Status.DISCONNECTED,
    "close": Status.DISCONNECTED,
    "logged_out": Status.LOGGED_OUT,
}
_PROXY_WORDS = ("proxy", "socks")
_TROUBLES = frozenset({"DISCONNECTED", "PROXY_ERROR", "AUTH_FAILURE", "STATUS_CHANGE"})


class WorkerEvent(msgspec.Struct, rename="camel", frozen=True):
    """The envelope of every event."""

    session_id: str
    type: str
    timestamp: Annotated[int, msgspec.Meta(ge=0, le=_END_OF_TIME_MS)]
    data: dict[str, Any] = {}
    seq: Annotated[int, msgspec.Meta(ge=0, le=_EXACT)] | None = None
    stream: Annotated[str, msgspec.Meta(max_length=128)] = ""


@dataclass(frozen=True, kw_only=True)
class Meaning:
    """What an event means: either a connected phone or an effect on the session, and what to look at next."""

    effect: EventEffect = field(default_factory=EventEffect)
    connected: ConnectedAs | None = None
    proxy_suspect: str = ""  # the proxy may be at fault: probe it
    note: dict[str, Any] | None = None  # what the journal keeps; None keeps the event's data


def meaning_of(event: WorkerEvent, *, now_ms: int) -> Meaning:
    """What to do about an event; raises InvalidBody when its data makes no sense."""
    decide = _DECISIONS.get(event.type)
    if decide is None:
        raise InvalidBody(f"Unknown event type {event.type[:40]!r}.", details={"field": "type"})
    if event.type not in _TROUBLES:
        return decide(event, now_ms)
    # what a worker says about its troubles may quote its proxy with the password
    event = msgspec.structs.replace(event, data=_without_credentials(event.data))
    found = decide(event, now_ms)
    return replace(found, note=event.data) if found.note is None else found


def _without_credentials(value: Any) -> Any:
    match value:
        case str():
            return without_credentials(value)
        case dict():
            return {name: _without_credentials(item) for name, item in value.items()}
        case list():
            return [_without_credentials(item) for item in value]
    return value


def _text(event: WorkerEvent, *names: str, required: bool = False) -> str:
    for name in names:
        value = event.data.get(name)
        if isinstance(value, str) and value:
            return value[:_LONGEST_TEXT]
    if required:
        raise InvalidBody(f"{event.type} needs data.{names[0]}.", details={"field": f"data.{names[0]}"})
    return ""


def _number(event: WorkerEvent, name: str) -> int | None:
    value = event.data.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not -_EXACT <= value <= _EXACT:
        return None
    return int(value)


def _code(event: WorkerEvent) -> int | None:
    value = event.data.get("code")
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return _number(event, "code")


def _qr(event: WorkerEvent, now_ms: int) -> Meaning:
    code = _text(event, "qr", "qrCode", required=True)
    if len(code) > _LONGEST_QR:
        raise InvalidBody("data.qr is too long for a QR code.", details={"field": "data.qr"})
    given_ms = _number(event, "expiresInMs")
    lives_ms = min(_DEFAULT_QR_MS if given_ms is None else given_ms, _LONGEST_QR_MS)
    left_ms = min(lives_ms, event.timestamp + lives_ms - now_ms)
    if left_ms <= 0:
        # it lay in the worker's spool while we were away
        return Meaning(note={"expired": True})
    expires_at = now_ms + left_ms
    qr = msgspec.json.encode({"qr": code, "expiresAt": expires_at}).decode()
    # the code itself links a device: it is shown on request only, not kept in the journal
    return Meaning(effect=EventEffect(status=Status.QR_READY, qr=qr, qr_ms=left_ms), note={"expiresAt": expires_at})


def _connected(event: WorkerEvent, _now_ms: int) -> Meaning:
    number = _text(event, "phoneNumber", "phone") or _text(event, "jid").split("@")[0].split(":")[0]
    try:
        phone = checked_phone(number)
    except InvalidPhone:
        raise InvalidBody(
            f"{event.type} needs a phone number in data.phoneNumber.", details={"field": "data.phoneNumber"}
        ) from None
    return Meaning(
        connected=ConnectedAs(
            phone=phone,
            jid=_text(event, "jid"),
            lid=_text(event, "lid"),
            name=_text(event, "name"),
            fingerprint=_text(event, "fingerprint"),
        )
    )


def _last_disconnect(event: WorkerEvent, reason: str) -> dict[str, str | int]:
    return {
        "lastDisconnectAt": event.timestamp,
        "lastDisconnectReason": reason,
        "lastDisconnectCode": str(_code(event) or ""),
        "connection": "closed",
    }


def _disconnected(event: WorkerEvent, _now_ms: int) -> Meaning:
    code, said = _code(event), _text(event, "reason")
    # 515 is how every pairing ends, not something that went wrong
    fields = {} if code == 515 else _last_disconnect(event, said or "unknown")
    if event.data.get("isProxyError") is True or said == "proxy_error":
        return _proxy_trouble(event, said or "proxy_error", fields)
    if event.data.get("isLoggedOut", code == 401) is True:
        return Meaning(
            effect=EventEffect(status=Status.LOGGED_OUT, reason="LOGGED_OUT", unlink=True, park=True, fields=fields)
        )
    if code in _FINAL_CODES or event.data.get("willReconnect") is False:
        reason = _FINAL_CODES.get(code or 0, said.upper() or "DISCONNECTED")
        return Meaning(effect=EventEffect(status=Status.FAILED, reason=reason, park=True, fields=fields))
    if said == "qr_expired":
        return Meaning(effect=EventEffect(status=Status.PENDING, reason="QR_EXPIRED", fields=fields))
    return Meaning(effect=EventEffect(status=Status.RECONNECTING, reason=said.upper(), fields=fields))


def _proxy_trouble(event: WorkerEvent, error: str, fields: dict[str, str | int]) -> Meaning:
    effect = EventEffect(status=Status.DISCONNECTED, reason="PROXY_ERROR", fields=fields)
    return Meaning(effect=effect, proxy_suspect=error)


def _proxy_error(event: WorkerEvent, _now_ms: int) -> Meaning:
    return _proxy_trouble(event, _text(event, "error") or "proxy error", _last_disconnect(event, "proxy_error"))


def _auth_failure(event: WorkerEvent, _now_ms: int) -> Meaning:
    fields = _last_disconnect(event, _text(event, "reason") or "auth_failure")
    return Meaning(
        effect=EventEffect(status=Status.LOGGED_OUT, reason="AUTH_FAILURE", unlink=True, park=True, fields=fields)
    )


def _status_change(event: WorkerEvent, now_ms: int) -> Meaning:
    """Older workers say everything this way."""
    error = _text(event, "error")
    if any(word in error.lower() for word in _PROXY_WORDS):
        return _proxy_trouble(event, error, _last_disconnect(event, "proxy_error"))
    status = _OLD_STATUS.get(_text(event, "status", required=True).lower())
    if status is None:
        raise InvalidBody("Unknown data.status.", details={"field": "data.status"})
    if status is Status.CONNECTED and _text(event, "phoneNumber", "phone", "jid"):
        return _connected(event, now_ms)
    if status is Status.LOGGED_OUT:
        return _auth_failure(event, now_ms)
    if status is Status.QR_READY and not _text(event, "qr", "qrCode"):
        return Meaning()
    if status is Status.QR_READY:
        return _qr(event, now_ms)
    return Meaning(effect=EventEffect(status=status, reason=error[:200]))


def _ping(event: WorkerEvent, now_ms: int) -> Meaning:
    fields: dict[str, str | int] = {"lastPing": now_ms}
    if connection := _text(event, "connection"):
        fields["connection"] = connection[:20]
    for name in ("rssBytes", "unacked", "spooled", "lastReceivedAt"):
        if (value := _number(event, name)) is not None:
            fields[name] = value
    return Meaning(effect=EventEffect(quiet=True, fields=fields))


def _command_result(event: WorkerEvent, _now_ms: int) -> Meaning:
    command_id = _text(event, "commandId", required=True)
    result = {name: event.data[name] for name in ("ok", "result", "error") if name in event.data}
    return Meaning(
        effect=EventEffect(command_id=command_id, result=msgspec.json.encode(result).decode()),
        note={"commandId": command_id, "ok": event.data.get("ok") is True},
    )


def _noted(_event: WorkerEvent, _now_ms: int) -> Meaning:
    return Meaning()


_DECISIONS = {
    "QR_CODE": _qr,
    "QR_UPDATE": _qr,
    "PAIRING_CODE": lambda _event, _now: Meaning(note={}),
    "CONNECTED": _connected,
    "DISCONNECTED": _disconnected,
    "PROXY_ERROR": _proxy_error,
    "AUTH_FAILURE": _auth_failure,
    "STATUS_CHANGE": _status_change,
    "PING": _ping,
    "COMMAND_RESULT": _command_result,
    "MESSAGE_SENT": _noted,
    "MESSAGE_FAILED": _noted,
    "MESSAGE_STATUS": _noted,
    "MESSAGE_RECEIVED": _noted,
    "MEDIA_READY": _noted,
    "MEDIA_FAILED": _noted,
}
EVENT_TYPES = tuple(_DECISIONS)
