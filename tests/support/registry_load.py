"""Hammers the registry from a process of its own; run as a program by the concurrency tests.

python registry_load.py <store url> <seed> <rounds>        everything at once, in a random order
python registry_load.py <store url> reserve <count>        only reservations; prints how many succeeded
"""

from __future__ import annotations

import asyncio
import random
import sys

from support.registry import FAR_AWAY, address, connect, request
from wa_orchestrator import errors
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store

PROXIES = 10
PHONES = [f"97250000{n:04}" for n in range(12)]
_REFUSALS = (errors.Conflict, errors.NotFound, errors.Gone, errors.NoProxyAvailable)


class Load:
    """One process's share of the work: its own sessions, and everybody's proxies and phones."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self.store = store
        self.chance = chance
        self.mine: list[str] = []

    async def step(self) -> None:
        acts = (self.provision, self.provision, self.connect, self.delete, self.fail_over, self.recover, self.order)
        try:
            await self.chance.choice(acts)()
        except _REFUSALS:
            pass  # refused is fine; half-done is not
        except errors.StoreUnavailable:
            await asyncio.sleep(0.05)

    async def provision(self) -> None:
        wanted = request(
            token=f"{self.chance.random()}",
            phone=self.chance.choice(["", *PHONES]),
            allow_additional=self.chance.random() < 0.5,
            rebind=self.chance.random() < 0.2,
        )
        made = await self.store.sessions.reserve(wanted, scan_by=FAR_AWAY)
        self.mine.append(made.session_id)
        await self.store.sessions.confirm(made.session_id)

    async def connect(self) -> None:
        if self.mine:
            await connect(self.store, self.chance.choice(self.mine), self.chance.choice(PHONES))

    async def delete(self) -> None:
        if not self.mine:
            return
        session_id = self.chance.choice(self.mine)
        for _ in range(self.chance.choice((1, 1, 3))):
            await self.store.sessions.delete(session_id, keep_s=60, forget=self.chance.random() < 0.2)
        if session_id in self.mine:
            self.mine.remove(session_id)

    async def fail_over(self) -> None:
        proxy_id = address(self.chance.randrange(PROXIES)).proxy_id
        _, sessions = await self.store.proxies.mark(proxy_id, ProxyStatus.BAD, error="x", kind="timeout")
        for session_id in sessions:
            await self.store.sessions.move(session_id, reason="PROXY_FAILED", from_proxy=proxy_id)

    async def recover(self) -> None:
        for number in self.chance.sample(range(PROXIES), 3):
            await self.store.proxies.mark(address(number).proxy_id, ProxyStatus.ACTIVE)

    async def order(self) -> None:
        if not self.mine:
            return
        session_id = self.chance.choice(self.mine)
        if self.chance.random() < 0.3:
            await self.store.sessions.release(session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED)
        await self.store.sessions.order(session_id, self.chance.choice(("start", "restart", "stop")), scan_by=FAR_AWAY)


async def until_told() -> None:
    """All processes begin in the same moment, once each of them is there."""
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


async def everything(url: str, seed: int, rounds: int) -> None:
    store = Store(url, SystemClock())
    load = Load(store, random.Random(seed))
    await until_told()
    for _ in range(rounds):
        await asyncio.gather(*(load.step() for _ in range(20)))
    await store.close()


async def reserve_only(url: str, count: int) -> None:
    store = Store(url, SystemClock())

    async def one() -> bool:
        try:
            made = await store.sessions.reserve(request(token=f"{random.random()}"), scan_by=FAR_AWAY)
            await store.sessions.confirm(made.session_id)
        except errors.NoProxyAvailable:
            return False
        return True

    await until_told()
    print(sum(await asyncio.gather(*(one() for _ in range(count)))), flush=True)
    await store.close()


if __name__ == "__main__":
    store_url, what, number = sys.argv[1:4]
    if what == "reserve":
        asyncio.run(reserve_only(store_url, int(number)))
    else:
        asyncio.run(everything(store_url, int(what), int(number)))
