"""Every call of the API as a value, the same for both clients. Pure, and the only place with addresses."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from wa_orchestrator_client import models
from wa_orchestrator_client.models import Json, camel, read

T = TypeVar("T")

# name → method and address, as the server's OpenAPI document writes them; a test compares the two
ROUTES: dict[str, tuple[str, str]] = {
    "provision": ("POST", "/api/sessions/provision"),
    "sessions": ("GET", "/api/sessions"),
    "session": ("GET", "/api/sessions/{session_id}"),
    "qr": ("GET", "/api/sessions/{session_id}/qr"),
    "pairing_code": ("POST", "/api/sessions/{session_id}/pairing-code"),
    "start": ("POST", "/api/sessions/{session_id}/start"),
    "stop": ("POST", "/api/sessions/{session_id}/stop"),
    "restart": ("POST", "/api/sessions/{session_id}/restart"),
    "logout": ("POST", "/api/sessions/{session_id}/logout"),
    "delete_session": ("DELETE", "/api/sessions/{session_id}"),
    "send": ("POST", "/api/v1/send"),
    "send_bulk": ("POST", "/api/v1/send/bulk"),
    "message": ("GET", "/api/v1/messages/{message_id}"),
    "messages": ("GET", "/api/v1/messages"),
    "cancel": ("POST", "/api/v1/messages/{message_id}/cancel"),
    "redrive": ("POST", "/api/v1/messages/{message_id}/redrive"),
    "upload": ("POST", "/api/v1/media"),
    "events": ("GET", "/api/v1/events"),
    "create_webhook": ("POST", "/api/v1/webhooks"),
    "webhooks": ("GET", "/api/v1/webhooks"),
    "delete_webhook": ("DELETE", "/api/v1/webhooks/{webhook_id}"),
}


@dataclass(frozen=True, kw_only=True)
class Call(Generic[T]):
    """What to ask, how to read the answer, and whether asking twice is harmless."""

    method: str
    path: str
    reads: Callable[[Any, Mapping[str, str]], T]
    params: Json = field(default_factory=dict)
    json: Any = None
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    repeatable: bool = False
    timeout_s: float | None = None
    picture: bool = False  # the answer is not JSON


def _call(
    name: str,
    reads: Callable[[Any, Mapping[str, str]], T],
    *,
    ids: Mapping[str, str] | None = None,
    repeatable: bool | None = None,
    **more: Any,
) -> Call[T]:
    method, template = ROUTES[name]
    path = template.format(**{key: quote(value, safe="") for key, value in (ids or {}).items()})
    harmless = method in {"GET", "DELETE"} if repeatable is None else repeatable
    return Call(method=method, path=path, reads=reads, repeatable=harmless, **more)


def _as(kind: type[T]) -> Callable[[Any, Mapping[str, str]], T]:
    return lambda body, _headers: read(kind, body)


def _given(**values: Any) -> Json:
    """camelCase, without what was left out; moments as ISO 8601."""
    return {
        camel(name): value.isoformat() if isinstance(value, datetime) else value
        for name, value in values.items()
        if value is not None and value != ""
    }


# sessions -------------------------------------------------------------------------------------------------------
def provision(**wanted: Any) -> Call[models.Provisioned]:
    # with an id of one's own a repeat is told apart (SESSION_EXISTS); without, it would make a second session
    return _call("provision", _as(models.Provisioned), json=_given(**wanted))


def sessions(*, cursor: str = "", **filters: Any) -> Call[tuple[list[models.Session], str | None]]:
    def reads(body: Any, _headers: Mapping[str, str]) -> tuple[list[models.Session], str | None]:
        return [read(models.Session, one) for one in body["sessions"]], body["nextCursor"]

    return _call("sessions", reads, params=_given(cursor=cursor, **filters))


def session(session_id: str) -> Call[models.Session]:
    return _call("session", _as(models.Session), ids={"session_id": session_id})


def order(name: str, session_id: str) -> Call[models.Session]:
    """start, stop, restart, logout: the server takes repeats."""
    return _call(name, _as(models.Session), ids={"session_id": session_id}, repeatable=True, timeout_s=60.0)


def qr(session_id: str) -> Call[models.Qr]:
    return _call("qr", _as(models.Qr), ids={"session_id": session_id})


def qr_picture(session_id: str, kind: str) -> Call[bytes]:
    def reads(body: Any, _headers: Mapping[str, str]) -> bytes:
        return bytes(body)

    return _call("qr", reads, ids={"session_id": session_id}, params={"format": kind}, picture=True)


def pairing_code(session_id: str, phone: str) -> Call[models.PairingCode]:
    return _call(
        "pairing_code", _as(models.PairingCode), ids={"session_id": session_id}, json={"phone": phone}, timeout_s=60.0
    )


def delete_session(session_id: str, *, forget: bool) -> Call[models.Deleted]:
    params = {"forget": "true"} if forget else {}
    return _call("delete_session", _as(models.Deleted), ids={"session_id": session_id}, params=params, timeout_s=60.0)


# messages -------------------------------------------------------------------------------------------------------
def send(to: str, message: str | Json, *, idempotency_key: str | None = None, **more: Any) -> Call[models.Queued]:
    """With a key of its own unless one is given: so it can be asked again until the answer is known."""

    def reads(body: Any, headers: Mapping[str, str]) -> models.Queued:
        replayed = headers.get("idempotent-replayed") == "true"
        return read(models.Queued, {**body, "replayed": replayed})

    key = idempotency_key or uuid.uuid4().hex
    body = {"to": to, "message": message, **_given(**more)}
    return _call("send", reads, json=body, headers={"Idempotency-Key": key}, repeatable=True)


def send_bulk(items: Iterable[Mapping[str, Any]], *, spread_minutes: int | None = None) -> Call[models.BulkResult]:
    keyed = [{"idempotencyKey": uuid.uuid4().hex, **item} for item in items]
    params = _given(spread_minutes=spread_minutes)
    return _call("send_bulk", _as(models.BulkResult), json=keyed, params=params, repeatable=True, timeout_s=300.0)


def message(message_id: str) -> Call[models.Message]:
    return _call("message", _as(models.Message), ids={"message_id": message_id})


def messages(*, cursor: str = "", **filters: Any) -> Call[tuple[list[models.Message], str | None]]:
    def reads(body: Any, _headers: Mapping[str, str]) -> tuple[list[models.Message], str | None]:
        return [read(models.Message, one) for one in body["messages"]], body["nextCursor"]

    return _call("messages", reads, params=_given(cursor=cursor, **filters))


def cancel(message_id: str) -> Call[models.MessageState]:
    return _call("cancel", _as(models.MessageState), ids={"message_id": message_id})


def redrive(message_id: str) -> Call[models.MessageState]:
    return _call("redrive", _as(models.MessageState), ids={"message_id": message_id})


def upload(content: bytes) -> Call[models.Upload]:
    headers = {"Content-Type": "application/octet-stream"}
    # twice uploaded is twice kept for a week, and no harm
    return _call("upload", _as(models.Upload), content=content, headers=headers, repeatable=True, timeout_s=300.0)


# events ---------------------------------------------------------------------------------------------------------
def events_page(
    after: int | None, *, types: tuple[str, ...], session_id: str | None, wait_ms: int, limit: int
) -> Call[models.EventsPage]:
    params = _given(after=after, types=",".join(types), session=session_id, limit=limit, wait_ms=wait_ms)
    return _call("events", _as(models.EventsPage), params=params, timeout_s=wait_ms / 1000 + 30.0)


# webhooks -------------------------------------------------------------------------------------------------------
def create_webhook(url: str, **wanted: Any) -> Call[models.Webhook]:
    return _call("create_webhook", _as(models.Webhook), json={"url": url, **_given(**wanted)})


def webhooks() -> Call[list[models.Webhook]]:
    def reads(body: Any, _headers: Mapping[str, str]) -> list[models.Webhook]:
        return [read(models.Webhook, one) for one in body["webhooks"]]

    return _call("webhooks", reads)


def delete_webhook(webhook_id: str) -> Call[bool]:
    return _call("delete_webhook", lambda body, _headers: bool(body["deleted"]), ids={"webhook_id": webhook_id})
