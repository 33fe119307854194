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

# Renewed while held, however long that is; a dead holder on another machine blocks no longer than this. Should a
# holder ever lose it for want of a renewal, the lock on the session's folder still keeps two workers apart.
_HOLD_MS = 10_000
_LOOK_AGAIN_S = 0.05
# A store that restarts is back within a second: giving the lock back then spares others the wait for its end.
_RETRY_PAUSES_S = (0.1, 0.2, 0.4, 0.8)


class SessionLocks:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock
        self._process = secrets.token_hex(4)

    @asynccontextmanager
    async def hold(self, session_id: str, *, owner: str = "", wait_s: float = 40.0) -> AsyncIterator[None]:
        """Waits for the lock, keeps it renewed, gives it back. `owner` is the server, over its restarts."""
        token = f"{owner}.{self._process}.{secrets.token_hex(8)}"
        await self._acquire(session_id, token, wait_s)
        renewal = asyncio.create_task(self._renew(session_id, token))
        try:
            yield
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
            await self._give_back(session_id, token)

    async def release_left_by(self, owner: str) -> int:
        """Takes back what an earlier process of this server held when it was killed; how many those were."""
        released = 0
        async for key in self._connection.client.scan_iter(keys.SESSION_LOCK("*"), count=1000):
            token = str(await self._connection.call("GET", key) or "")
            if token.startswith(f"{owner}.") and not token.startswith(f"{owner}.{self._process}."):
                await self._release(key.split(":")[1], token)
                released += 1
        return released

    async def _give_back(self, session_id: str, token: str) -> None:
        for pause in (*_RETRY_PAUSES_S, None):
            try:
                await self._release(session_id, token)
            except StoreUnavailable:
                if pause is None:
                    return  # it runs out by itself
                await asyncio.sleep(pause)
            else:
                return

    async def _acquire(self, session_id: str, token: str, wait_s: float) -> None:
        key = keys.SESSION_LOCK(session_id)
        looks = 0
        try:
            async with asyncio.timeout(wait_s):
                while not await self._connection.call("SET", key, token, "NX", "PX", _HOLD_MS):
                    # the store's clock was ahead and is set back: a dead holder's lock would last for as long as that
                    if looks == 0 and int(await self._connection.call("PTTL", key)) > _HOLD_MS:
                        await self._connection.call("PEXPIRE", key, _HOLD_MS)
                    looks += 1
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
