"""The proxy pool in the store."""

from __future__ import annotations

import asyncio
from typing import Any

from wa_orchestrator.clock import Clock
from wa_orchestrator.model.proxy import Proxy, ProxyAddress, ProxyStatus
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection, batched


def address_fields(address: ProxyAddress, clock: Clock) -> dict[str, str | int]:
    return {
        "host": address.host,
        "port": address.port,
        "user": address.user,
        "password": address.password,
        "addedAt": clock.now_ms(),
    }


class ProxyStore:
    """Typed methods around the scripts that change proxies."""

    def __init__(self, connection: Connection, clock: Clock, *, slots_per_proxy: int) -> None:
        self._connection = connection
        self._clock = clock
        self._cap = slots_per_proxy

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {"now": self._clock.now_ms(), "cap": self._cap, **arguments})

    async def add(self, address: ProxyAddress) -> bool:
        """True when it is new; a known one takes over a changed password."""
        answer = await self._run("add_proxy", id=address.proxy_id, fields=address_fields(address, self._clock))
        return bool(answer["added"])

    async def remove(self, proxy_id: str, *, drain: bool) -> list[str]:
        """The sessions that must be moved before it is gone; empty: it is gone."""
        answer = await self._run("remove_proxy", id=proxy_id, drain=drain)
        return list(answer["sessions"])

    async def mark(
        self,
        proxy_id: str,
        status: ProxyStatus,
        *,
        fields: dict[str, str | int] | None = None,
        error: str = "",
        kind: str = "",
    ) -> tuple[ProxyStatus, list[str]]:
        """Writes a verdict; returns what it was before and the sessions that hold slots."""
        answer = await self._run("mark_proxy", id=proxy_id, status=status, set=fields or {}, error=error, kind=kind)
        return ProxyStatus(answer["was"]), list(answer["sessions"])

    async def get(self, proxy_id: str) -> Proxy | None:
        found = await self._read([proxy_id])
        return found[0] if found else None

    async def count(self) -> int:
        return int(await self._connection.call("SCARD", keys.PROXIES_ALL()))

    async def all(self) -> list[Proxy]:
        ids = await self._connection.call("SMEMBERS", keys.PROXIES_ALL())
        return await self._read(sorted(ids))

    async def due(self, *, most: int) -> list[str]:
        """Proxies whose next check has come, the most overdue first."""
        now = self._clock.now_ms()
        ids: list[str] = await self._connection.call(
            "ZRANGE", keys.PROXIES_CHECKS(), "-inf", now, "BYSCORE", "LIMIT", 0, most
        )
        return ids

    async def draining(self) -> list[str]:
        return sorted(await self._connection.call("SMEMBERS", keys.PROXIES_DRAINING()))

    async def _read(self, ids: list[str]) -> list[Proxy]:
        found: list[Proxy] = []
        for part in batched(ids):
            found += await self._read_some(part)
        return found

    async def _read_some(self, ids: list[str]) -> list[Proxy]:
        ask = self._connection.ask
        steps = [
            step
            for i in ids
            for step in (
                ask("HGETALL", keys.PROXY(i)),
                ask("GET", keys.PROXY_STATUS(i)),
                ask("SMEMBERS", keys.PROXY_SESSIONS(i)),
                ask("SCARD", keys.PROXY_PHONES(i)),
                ask("GET", keys.PROXY_BAD_AT(i)),
            )
        ]
        answers = await asyncio.gather(*steps)
        rows = [answers[start : start + 5] for start in range(0, len(answers), 5)]
        return [
            _as_proxy(i, record, status, sessions, phones, bad_at)
            for i, (record, status, sessions, phones, bad_at) in zip(ids, rows, strict=True)
            if record and status
        ]


def _as_proxy(
    proxy_id: str, record: dict[str, str], status: str, sessions: set[str], phones: int, bad_at: str | None
) -> Proxy:
    def number(name: str) -> int | None:
        value = record.get(name, "")
        return int(float(value)) if value else None

    return Proxy(
        proxy_id=proxy_id,
        address=ProxyAddress(
            host=record["host"], port=int(record["port"]), user=record.get("user", ""),
            password=record.get("password", ""),
        ),
        status=ProxyStatus(status),
        sessions=tuple(sorted(sessions)),
        bound_phones=phones,
        draining=record.get("draining") == "1",
        added_at=number("addedAt") or 0,
        checked_at=number("checkedAt"),
        latency_ms=number("latencyMs"),
        exit_ip=record.get("exitIp") or None,
        exit_ip_at=number("exitIpAt"),
        bad_at=int(float(bad_at)) if bad_at else None,
        last_error=record.get("lastError") or None,
        last_error_kind=record.get("lastErrorKind") or None,
        failures=number("failures") or 0,
        next_check_at=number("nextCheckAt") or 0,
    )  # fmt: skip
