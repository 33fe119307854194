"""A lock per session in the store: one process at a time starts or stops its worker."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import SessionBusy, StoreUnavailable
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection

# Longer than the slowest stop (12 s) plus a start; renewed while held; a dead holder blocks no longer than this.
_HOLD_MS = 30_000
_LOOK_AGAIN_S = 0.05


class SessionLocks:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    @asynccontextmanager
    async def hold(self, session_id: str, *, wait_s: float = 40.0) -> AsyncIterator[None]:
        """Waits for the lock, keeps it renewed, gives it back."""
        token = secrets.token_hex(8)
        await self._acquire(session_id, token, wait_s)
        renewal = asyncio.create_task(self._renew(session_id, token))
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
            # a store that is away lets the lock run out by itself
            with suppress(StoreUnavailable):
                await self._release(session_id, token)

    async def _acquire(self, session_id: str, token: str, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                while not await self._connection.call(
                    "SET", keys.SESSION_LOCK(session_id), token, "NX", "PX", _HOLD_MS
                ):
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError:
            raise SessionBusy from None

    async def _renew(self, session_id: str, token: str) -> None:
        while True:
            await asyncio.sleep(_HOLD_MS / 3000)
            with suppress(StoreUnavailable):
                await self._release(session_id, token, renew_ms=_HOLD_MS)

    async def _release(self, session_id: str, token: str, renew_ms: int | None = None) -> None:
        arguments = {"now": self._clock.now_ms(), "id": session_id, "token": token, "renewMs": renew_ms}
        await scripts.run(self._connection, "release_lock", arguments)
