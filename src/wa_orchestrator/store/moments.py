"""Moments that were reckoned by a clock that was ahead, put right when it is set back."""

from __future__ import annotations

from wa_orchestrator.clock import Clock
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection, batched

# Clocks of servers differ by seconds; what lies half a minute ahead comes by itself.
_SLACK_MS = 30_000


class MomentStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def clock_went_back_ms(self) -> int:
        """Notes the time; 0, or how far the clock went back since anybody noted it."""
        arguments = {"now": self._clock.now_ms(), "slackMs": _SLACK_MS}
        return int((await scripts.run(self._connection, "watch_clock", arguments))["backMs"])

    async def set_back(self, back_ms: int) -> bool:
        """Whoever dies in here leaves it to the next one: the note of the time goes last, the rest may be repeated."""
        for lanes in batched(await self._lanes()):
            arguments = {"now": self._clock.now_ms(), "backMs": back_ms, "lanes": lanes}
            await scripts.run(self._connection, "set_lanes_back", arguments)
        arguments = {"now": self._clock.now_ms(), "slackMs": _SLACK_MS}
        return bool((await scripts.run(self._connection, "set_clock_back", arguments))["done"])

    async def _lanes(self) -> list[str]:
        prefix = keys.LANE("")
        found = [key async for key in self._connection.client.scan_iter(keys.LANE("*"), count=1000, _type="hash")]
        # a scan may give a key twice
        return sorted({key.removeprefix(prefix) for key in found})
