"""What backups carry of the store: out of it, and back into it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.clock import Clock
from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.proxies import address_fields


@dataclass(frozen=True)
class Part:
    """A part of the store besides sessions that backups carry.

    It is restored only if it is not there at all: a key that was revoked or a user who was removed must not come back.
    `merge` adds what is missing instead.
    """

    name: str
    key: keys.Key
    id: str = ""  # what stands in the key's `{}`; `*`: every key of this kind
    merge: bool = False


# To have a backup carry more: add its line here. Sessions, their proxies, phones, lanes and limits are carried anyway.
PARTS = (
    Part("globalLimits", keys.LIMITS, "global"),
    Part("users", keys.USERS),
    Part("apiKeys", keys.API_KEYS),
    Part("apiKeyNames", keys.API_KEY_NAMES),
    # a restore may bring back an opt-out that was lifted since: no message is the safe side
    Part("suppressed", keys.SUPPRESSED, merge=True),
    Part("suppressedByTime", keys.SUPPRESSED_BY_TIME, merge=True),
    Part("consent", keys.CONSENT, "*"),
)
# entries per script: the store serves nobody else meanwhile
_AT_ONCE = 2000


@dataclass(frozen=True, kw_only=True)
class Placed:
    """Where a restored session stands; without a slot it is stopped."""

    placed: bool
    proxy_id: str


class CarryingStore:
    def __init__(self, connection: Connection, clock: Clock, *, slots_per_proxy: int, sessions_per_phone: int) -> None:
        self._connection = connection
        self._clock = clock
        self._cap = slots_per_proxy
        self._per_phone = sessions_per_phone

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {"now": self._clock.now_ms(), "cap": self._cap, **arguments})

    async def collect(self, session_id: str, *, phone: str = "") -> dict[str, Any]:
        """All that must survive of a session; an empty `record` when there is none. Holds its proxy's password."""
        return await self._run("collect_session", id=session_id, phone=phone)

    async def restore(
        self,
        session_id: str,
        session: dict[str, Any],
        *,
        token: str,
        mode: str,
        backup: str,
        scan_by: int,
        proxy_id: str = "",
        proxy_address: ProxyAddress | None = None,
    ) -> Placed:
        """Writes what `collect` told; repeating it with the same token changes nothing."""
        answer = await self._run(
            "restore_session",
            id=session_id,
            session=session,
            token=token,
            mode=mode,
            backup=backup,
            scanBy=scan_by,
            maxPerPhone=self._per_phone,
            proxy=proxy_id,
            proxyFields=address_fields(proxy_address, self._clock) if proxy_address else None,
        )
        return Placed(placed=bool(answer["placed"]), proxy_id=str(answer["proxy"]))

    async def mark_moved(self, session_id: str) -> bool:
        answer = await self._run("mark_moved", id=session_id)
        return bool(answer["moved"])

    # other parts -----------------------------------------------------------------------------------------------
    async def collect_parts(self) -> dict[str, dict[str, Any]]:
        """{part: {id: value}}; parts and keys that are empty are left out."""
        found: dict[str, dict[str, Any]] = {}
        for part in PARTS:
            for key in await self._keys_of(part):
                value = await self._read(key, part.key.type)
                if value:
                    found.setdefault(part.name, {})[_id_in(part.key, key)] = value
        return found

    async def restore_parts(self, parts: dict[str, dict[str, Any]]) -> int:
        """How many entries were missing and are there now. Parts this version does not know are left out."""
        known = {part.name: part for part in PARTS}
        added = 0
        for name, values in parts.items():
            part = known.get(name)
            for part_id, value in values.items() if part else ():
                if part and part.id in {"*", part_id}:
                    added += await self._restore_part(part, part_id, value)
        return added

    async def _restore_part(self, part: Part, part_id: str, value: Any) -> int:
        pieces = [value]
        if part.merge and isinstance(value, dict):
            rows = list(value.items())
            pieces = [dict(rows[at : at + _AT_ONCE]) for at in range(0, len(rows), _AT_ONCE)]
        answers = [
            await self._run("restore_part", key=part.key(part_id), type=part.key.type, value=piece, merge=part.merge)
            for piece in pieces
        ]
        return sum(int(answer["added"]) for answer in answers)

    async def _keys_of(self, part: Part) -> list[str]:
        if part.id != "*":
            return [part.key(part.id)]
        return sorted([key async for key in self._connection.client.scan_iter(part.key("*"), count=1000)])

    async def _read(self, key: str, kind: str) -> Any:
        call = self._connection.call
        if kind == "hash":
            return dict(await call("HGETALL", key))
        if kind == "set":
            return sorted(await call("SMEMBERS", key))
        if kind == "sorted set":
            pairs: Any = await self._connection.client.zrange(key, 0, -1, withscores=True)
            return {str(member): float(score) for member, score in pairs}
        return await call("GET", key)


def _id_in(kind: keys.Key, key: str) -> str:
    before, _, after = kind.pattern.partition("{}")
    found = re.fullmatch(re.escape(before) + "(.*)" + re.escape(after), key)
    return found[1] if found and "{}" in kind.pattern else ""
