"""Commands for workers: left in the store, fetched by the worker's claim, answered by an event."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import WorkerSilent
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection

_LOOK_AGAIN_S = 0.1


class CommandStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def send(self, session_id: str, name: str, args: dict[str, Any]) -> str:
        command_id = secrets.token_hex(8)
        command = {"commandId": command_id, "name": name, "args": args}
        await scripts.run(
            self._connection,
            "enqueue_command",
            {
                "now": self._clock.now_ms(),
                "id": session_id,
                "commandId": command_id,
                "command": msgspec.json.encode(command).decode(),
            },
        )
        return command_id

    async def waiting(self, session_id: str) -> list[dict[str, Any]]:
        """Not answered yet, in no particular order."""
        found = await self._connection.call("HVALS", keys.SESSION_COMMANDS(session_id))
        return [msgspec.json.decode(text) for text in found]

    async def answer(self, command_id: str, *, timeout_s: float) -> dict[str, Any]:
        """The worker's `{ok, result?, error?}`; WorkerSilent when none comes in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    text = await self._connection.call("GET", keys.COMMAND_RESULT(command_id))
                    if text:
                        found: dict[str, Any] = msgspec.json.decode(text)
                        return found
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError:
            raise WorkerSilent from None
