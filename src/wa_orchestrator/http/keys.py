"""API keys over HTTP: make, look, change, rotate, revoke. For admins."""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any

from fastapi import Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from wa_orchestrator.clock import iso
from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.http.audit_trail import name_subject
from wa_orchestrator.http.key_ring import KeyRing, digest_of
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import CallerHere
from wa_orchestrator.model.caller import Right
from wa_orchestrator.model.limits import read_instant
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.store.api_keys import ApiKey

_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")
# the audit trail gives these names to API_KEY, to people and to the command line
_RESERVED = frozenset({"api", "dashboard", "cli", "user", "server"})
_SHOWN = 8
_MOST_SESSIONS = 1000


def _name(value: str) -> str:
    if not _NAME.fullmatch(value) or value.lower() in _RESERVED:
        raise ValueError("1 to 40 letters, digits, '.', '_' or '-'; not api, dashboard, cli, user or server")
    return value


def _sessions(value: list[str] | None) -> list[str] | None:
    if value is not None and not value:
        raise ValueError("name at least one session, or leave it out for all sessions")
    return value


Name = Annotated[str, AfterValidator(_name)]
Rights = Annotated[list[Right], Field(min_length=1, max_length=4)]
Sessions = Annotated[list[str] | None, Field(max_length=_MOST_SESSIONS), AfterValidator(_sessions)]
RatePerMinute = Annotated[int | None, Field(ge=1, le=1_000_000)]
RateBurst = Annotated[int, Field(ge=1, le=1_000_000)]
Note = Annotated[str | None, Field(max_length=200)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class NewKeyBody(_Body):
    name: Name
    rights: Rights
    sessions: Sessions = None
    expires_at: str | int | None = None
    rate_per_minute: RatePerMinute = None
    rate_burst: RateBurst = 10
    note: Note = None


class ChangedKeyBody(_Body):
    """Only what is named changes; null takes a limit away."""

    name: Name | None = None
    rights: Rights | None = None
    sessions: Sessions = None
    expires_at: str | int | None = None
    rate_per_minute: RatePerMinute = None
    rate_burst: RateBurst | None = None
    disabled: bool | None = None
    note: Note = None


def keys_router(rooms: Rooms, ring: KeyRing) -> Routes:
    router = Routes(tags=["keys"])
    store = rooms.store.api_keys

    @router.get("/keys", summary="List API keys; never the keys themselves")
    async def list_keys() -> dict[str, Any]:
        return {"keys": [key_view(key, now_ms=rooms.clock.now_ms()) for key in await store.all()]}

    @router.post("/keys", status_code=201, summary="Make an API key; it is shown this once")
    async def create(body: NewKeyBody, request: Request, caller: CallerHere) -> dict[str, Any]:
        secret = new_secret()
        key = ApiKey(
            key_id=f"key_{secrets.token_hex(6)}",
            name=body.name,
            digest=digest_of(secret),
            shown=secret[:_SHOWN],
            rights=frozenset(body.rights),
            sessions=_checked_sessions(body.sessions),
            expires_at=_later(body.expires_at, now_ms=rooms.clock.now_ms()),
            rate_per_minute=body.rate_per_minute or 0,
            rate_burst=body.rate_burst,
            created_at=rooms.clock.now_ms(),
            created_by=caller.by,
            note=body.note or "",
        )
        name_subject(request.scope, key.name)
        await store.create(key)
        ring.forget()
        return {**key_view(key, now_ms=rooms.clock.now_ms()), "key": secret}

    @router.get("/keys/self", summary="What the key of this call may do")
    async def myself(caller: CallerHere) -> dict[str, Any]:
        return {
            "by": caller.by,
            "rights": [right.value for right in Right if right in caller.rights],
            "sessions": None if caller.sessions is None else sorted(caller.sessions),
            "ratePerMinute": caller.rate_per_minute or None,
        }

    @router.get("/keys/{key_id}", summary="Look at an API key")
    async def get(key_id: str) -> dict[str, Any]:
        return key_view(await store.get(key_id), now_ms=rooms.clock.now_ms())

    @router.patch("/keys/{key_id}", summary="Change an API key: rights, sessions, end, rate, on or off")
    async def change(key_id: str, body: ChangedKeyBody, request: Request) -> dict[str, Any]:
        changes = _changes(body, now_ms=rooms.clock.now_ms())
        key = await store.change(key_id, **changes)
        ring.forget()
        name_subject(request.scope, key.name)
        return key_view(key, now_ms=rooms.clock.now_ms())

    @router.post("/keys/{key_id}/rotate", summary="A new key with the same name and rights; the old one ends at once")
    async def rotate(key_id: str, request: Request) -> dict[str, Any]:
        secret = new_secret()
        key = await store.change(key_id, digest=digest_of(secret), shown=secret[:_SHOWN])
        ring.forget()
        name_subject(request.scope, key.name)
        return {**key_view(key, now_ms=rooms.clock.now_ms()), "key": secret}

    @router.delete("/keys/{key_id}", summary="Revoke an API key for good")
    async def revoke(key_id: str, request: Request) -> dict[str, Any]:
        name = await store.remove(key_id)
        ring.forget()
        name_subject(request.scope, name)
        return {"id": key_id, "name": name, "revoked": True}

    return router


def new_secret() -> str:
    """256 random bits: nobody guesses it, so its hash needs no salt and no slowness."""
    return f"wak_{secrets.token_urlsafe(32)}"


def key_view(key: ApiKey, *, now_ms: int) -> dict[str, Any]:
    expired = key.expires_at is not None and key.expires_at <= now_ms
    return {
        **key.view(),
        "expired": expired,
        "expiresAt": iso(key.expires_at),
        "createdAt": iso(key.created_at),
        "lastUsedAt": iso(key.last_used_at),
    }


def _checked_sessions(sessions: list[str] | None) -> frozenset[str] | None:
    """Those that do not exist yet may be named too: a key can be made before its session."""
    return None if sessions is None else frozenset(checked_session_id(session) for session in sessions)


def _later(moment: str | int | None, *, now_ms: int) -> int | None:
    if moment is None:
        return None
    found = read_instant("expiresAt", moment)
    if found <= now_ms:
        raise InvalidBody("expiresAt: it must be later than now.", details={"field": "expiresAt"})
    return found


def _changes(body: ChangedKeyBody, *, now_ms: int) -> dict[str, Any]:
    named = body.model_fields_set
    for field in ("name", "rights", "rate_burst", "disabled"):
        if field in named and getattr(body, field) is None:
            raise InvalidBody(f"{to_camel(field)}: it cannot be null.", details={"field": to_camel(field)})
    changes: dict[str, Any] = {field: getattr(body, field) for field in named}
    if "rights" in named:
        changes["rights"] = frozenset(body.rights or ())
    if "sessions" in named:
        changes["sessions"] = _checked_sessions(body.sessions)
    if "expires_at" in named:
        changes["expires_at"] = _later(body.expires_at, now_ms=now_ms)
    if "rate_per_minute" in named:
        changes["rate_per_minute"] = body.rate_per_minute or 0
    if not changes:
        raise InvalidBody("Name at least one field to change.", details={"field": "body"})
    return changes
