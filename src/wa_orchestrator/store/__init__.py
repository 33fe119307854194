"""The only room that knows Redis: keys, scripts and typed methods around them."""

from __future__ import annotations

from wa_orchestrator.clock import Clock
from wa_orchestrator.store.commands import CommandStore
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.journal import Journal
from wa_orchestrator.store.locks import SessionLocks
from wa_orchestrator.store.proxies import ProxyStore
from wa_orchestrator.store.sessions import SessionStore


class Store:
    """Everything the rooms may ask of the store."""

    def __init__(self, url: str, clock: Clock, *, slots_per_proxy: int = 4, sessions_per_phone: int = 4) -> None:
        self.connection = Connection(url)
        self.sessions = SessionStore(
            self.connection, clock, slots_per_proxy=slots_per_proxy, sessions_per_phone=sessions_per_phone
        )
        self.proxies = ProxyStore(self.connection, clock, slots_per_proxy=slots_per_proxy)
        self.commands = CommandStore(self.connection, clock)
        self.journal = Journal(self.connection)
        self.locks = SessionLocks(self.connection, clock)

    async def ping(self) -> None:
        """Raises StoreUnavailable when it is away."""
        await self.connection.call("PING")

    async def close(self) -> None:
        await self.connection.close()
