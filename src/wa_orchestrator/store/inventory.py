"""The stock in the store: profiles, and which stocks run low."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.proxies import address_fields


@dataclass(frozen=True, kw_only=True)
class StoredProfile:
    phone: str
    label: str
    proxy_id: str
    added_at: int


class InventoryStore:
    def __init__(self, connection: Connection, clock: Clock, *, slots_per_proxy: int) -> None:
        self._connection = connection
        self._clock = clock
        self._cap = slots_per_proxy

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {"now": self._clock.now_ms(), "cap": self._cap, **arguments})

    async def add_profile(self, phone: str, *, label: str, address: ProxyAddress | None) -> str:
        """Empty when it was added, else why not: `known` or `in_use`."""
        answer = await self._run(
            "add_profile", phone=phone, label=label, proxy=address.proxy_id if address else "",
            proxyFields=address_fields(address, self._clock) if address else None,
        )  # fmt: skip
        return "" if answer["added"] else str(answer["why"])

    async def remove_profile(self, phone: str) -> bool:
        return bool((await self._run("remove_profile", phone=phone))["removed"])

    async def profile_phones(self) -> list[str]:
        """In the order they came."""
        found: list[str] = await self._connection.call("ZRANGE", keys.PROFILES_ALL(), 0, -1)
        return found

    async def profiles(self) -> list[StoredProfile]:
        """In the order they came."""
        phones = await self.profile_phones()
        records: dict[str, str] = await self._connection.call("HGETALL", keys.PROFILES())
        found = [(phone, msgspec.json.decode(records[phone])) for phone in phones if phone in records]
        return [
            StoredProfile(phone=phone, label=r["label"], proxy_id=r["proxy"], added_at=int(r["addedAt"]))
            for phone, r in found
        ]

    async def note_stock(self, counts: Mapping[str, int], *, low: Sequence[str], thresholds: Mapping[str, int]) -> int:
        """How many changes were noted."""
        stocks = [
            {"name": name, "count": count, "threshold": thresholds[name], "low": name in low}
            for name, count in counts.items()
        ]
        return int((await self._run("note_stock", stocks=stocks))["noted"])
