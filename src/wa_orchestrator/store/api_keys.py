"""API keys in the store: hashed, with their rights and limits. The key itself is nowhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import KeyNotFound
from wa_orchestrator.model.caller import Caller, Right, with_included
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection

_ALL_SESSIONS = "*"


@dataclass(frozen=True, kw_only=True)
class ApiKey:
    """One kept key. `digest` is the SHA-256 of the key: it is random and long, so a slow hash would add nothing."""

    key_id: str
    name: str
    digest: str
    shown: str  # its first characters, to tell keys apart
    rights: frozenset[Right]
    sessions: frozenset[str] | None = None  # None: all
    expires_at: int | None = None
    disabled: bool = False
    rate_per_minute: int = 0
    rate_burst: int = 1
    created_at: int = 0
    created_by: str = ""
    note: str = ""
    last_used_at: int | None = None

    def caller(self) -> Caller:
        return Caller(
            by=self.name,
            rights=with_included(self.rights),
            sessions=self.sessions,
            key_id=self.key_id,
            rate_per_minute=self.rate_per_minute,
            rate_burst=self.rate_burst,
        )

    def view(self) -> dict[str, Any]:
        """For lists: everything but the hash."""
        return {
            "id": self.key_id,
            "name": self.name,
            "shown": self.shown,
            "rights": [right.value for right in Right if right in self.rights],
            "sessions": None if self.sessions is None else sorted(self.sessions),
            "ratePerMinute": self.rate_per_minute or None,
            "rateBurst": self.rate_burst if self.rate_per_minute else None,
            "disabled": self.disabled,
            "note": self.note or None,
            "createdBy": self.created_by or None,
        }


class ApiKeyStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def create(self, key: ApiKey) -> None:
        """Raises KeyNameTaken: a name stands in the audit trail and must mean one key."""
        await self._run("create_key", id=key.key_id, name=key.name, record=_fields(key))

    async def change(self, key_id: str, **changes: Any) -> ApiKey:
        """Only the named fields; what somebody else changes at the same time stays."""
        record = await self._run("change_key", id=key_id, set=packed(changes))
        return _key(key_id, record["record"], record.get("usedAt") or None)

    async def remove(self, key_id: str) -> str:
        """The name of the key that is gone now."""
        return str((await self._run("remove_key", id=key_id))["name"])

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {"now": self._clock.now_ms(), **arguments})

    # reading ---------------------------------------------------------------------------------------------------
    async def all(self) -> list[ApiKey]:
        kept = self._connection.ask("HGETALL", keys.API_KEYS())
        used: dict[str, str] = await self._connection.call("HGETALL", keys.API_KEYS_USED())
        records: dict[str, str] = await kept
        found = [_key(key_id, msgspec.json.decode(text), used.get(key_id)) for key_id, text in records.items()]
        return sorted(found, key=lambda key: (key.created_at, key.key_id))

    async def records(self) -> dict[str, str]:
        """All keys as they are kept: equal to the ones before when nothing changed. See `read_record`."""
        found: dict[str, str] = await self._connection.call("HGETALL", keys.API_KEYS())
        return found

    async def get(self, key_id: str) -> ApiKey:
        text = await self._connection.call("HGET", keys.API_KEYS(), key_id)
        if not text:
            raise KeyNotFound
        used = await self._connection.call("HGET", keys.API_KEYS_USED(), key_id)
        return _key(key_id, msgspec.json.decode(text), used)

    def note_use(self, key_id: str, at_ms: int) -> None:
        """Not waited for: it travels with the next call of the request, and one that is lost is no harm."""
        noted = self._connection.ask("HSET", keys.API_KEYS_USED(), key_id, at_ms)
        noted.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def take_turn(self, caller: Caller) -> int:
        """0: go on. Else the milliseconds until the key's own rate allows the next call."""
        answer = await self._run(
            "take_turn", name=f"key:{caller.key_id}", perMinute=caller.rate_per_minute, burst=caller.rate_burst
        )
        return int(answer["waitMs"])


def read_record(key_id: str, text: str) -> ApiKey:
    return _key(key_id, msgspec.json.decode(text), None)


def packed(changes: dict[str, Any]) -> dict[str, Any]:
    """Fields as the store keeps them: no lists, which Lua could not tell from objects when they are empty."""
    found = dict(changes)
    if "rights" in found:
        found["rights"] = " ".join(right.value for right in Right if right in found["rights"])
    if "sessions" in found:
        found["sessions"] = _ALL_SESSIONS if found["sessions"] is None else " ".join(sorted(found["sessions"]))
    return {_NAMES.get(name, name): ("" if value is None else value) for name, value in found.items()}


_NAMES = {"expires_at": "expiresAt", "rate_per_minute": "ratePerMinute", "rate_burst": "rateBurst",
          "created_at": "createdAt", "created_by": "createdBy"}  # fmt: skip


def _fields(key: ApiKey) -> dict[str, Any]:
    kept = ("name", "digest", "shown", "rights", "sessions", "expires_at", "disabled", "rate_per_minute", "rate_burst",
            "created_at", "created_by", "note")  # fmt: skip
    return packed({name: getattr(key, name) for name in kept})


def _key(key_id: str, record: dict[str, Any], used_at: str | int | None) -> ApiKey:
    sessions = record.get("sessions", _ALL_SESSIONS)
    return ApiKey(
        key_id=key_id,
        name=record["name"],
        digest=record["digest"],
        shown=record.get("shown", ""),
        rights=frozenset(Right(word) for word in record["rights"].split()),
        sessions=None if sessions == _ALL_SESSIONS else frozenset(sessions.split()),
        expires_at=int(record["expiresAt"]) if record.get("expiresAt") else None,
        disabled=bool(record.get("disabled")),
        rate_per_minute=int(record.get("ratePerMinute") or 0),
        rate_burst=int(record.get("rateBurst") or 1),
        created_at=int(record.get("createdAt") or 0),
        created_by=record.get("createdBy", ""),
        note=record.get("note", ""),
        last_used_at=int(used_at) if used_at else None,
    )
