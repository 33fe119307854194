"""Plans a lane: reads trust and overrides, asks the pure functions, writes the instants into the store."""

from __future__ import annotations

import asyncio

from wa_orchestrator.clock import Clock
from wa_orchestrator.dispatcher.pacing import plan_lane
from wa_orchestrator.model.limits import Burst, Effective, Override, effective_limits, read_override, strictest
from wa_orchestrator.model.trust import Trust, trust_of
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store


class Planner:
    def __init__(self, *, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock

    async def plan(self, lane: str) -> None:
        version = await self._store.lanes.plan_version(lane)
        effective, _, first = await self.effective(lane)
        plan = plan_lane(effective, first_connected_at=first, now_ms=self._clock.now_ms())
        await self._store.lanes.write_plan(lane, plan, version=version)

    async def effective(self, lane: str) -> tuple[Effective, Trust, int | None]:
        """The limits of a phone now. Several sessions of one phone share one budget: their overrides all count."""
        sessions = await self._store.lanes.sessions_of(lane)
        return await self._effective(lane, sessions)

    async def effective_of_session(self, session_id: str, phone: str) -> tuple[Effective, Trust, int | None]:
        """The same for a session that may not have a phone yet."""
        sessions = await self._store.lanes.sessions_of(phone) if phone else []
        return await self._effective(phone, sorted({*sessions, session_id}))

    async def _effective(self, phone: str, sessions: list[str]) -> tuple[Effective, Trust, int | None]:
        first = await self._store.sessions.first_connected_at(phone) if phone else None
        now = self._clock.now_ms()
        trust = trust_of(first, now)
        everywhere, *own = await asyncio.gather(self.override("global"), *(self.override(s) for s in sessions))
        overrides: list[tuple[str, Override]] = [("global", everywhere)] if everywhere else []
        if live := [o for o in own if o and o.active(now)]:
            overrides.append(("session", strictest(live)))
        effective = effective_limits(
            trust=trust,
            default_preset=self._settings.pacing_preset,
            timezone=self._settings.timezone,
            burst=Burst(self._settings.burst_messages, self._settings.burst_pause_ms),
            overrides=overrides,
            now_ms=now,
        )
        return effective, trust, first

    async def override(self, name: str) -> Override | None:
        kept = await self._store.lanes.override(name)
        # it was checked when it was set; one that has ended meanwhile is passed over by effective_limits
        return read_override(kept, now_ms=0) if kept else None
