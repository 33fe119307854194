"""Pacing limits over HTTP: effective values, where each comes from, overrides."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Body

from wa_orchestrator.clock import iso
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.sessions import SessionLook
from wa_orchestrator.model.limits import PRESETS, limits_view, override_view, read_override
from wa_orchestrator.rooms import Rooms

_NAMES = {"per_minute": "perMinute", "min_delay_ms": "minDelayMs", "max_delay_ms": "maxDelayMs"}
_EXAMPLE = {"daily": 200, "perMinute": 10, "minDelayMs": 3000, "maxDelayMs": 6000, "hours": "09:00-18:00"}
LimitsBody = Annotated[dict[str, Any], Body(examples=[_EXAMPLE])]


def limits_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["pacing"])
    look = SessionLook(rooms)

    async def shown(session_id: str) -> dict[str, Any]:
        session = await look.known(session_id)
        effective, trust, since = await rooms.planner.effective_of_session(session_id, session.phone)
        own = await rooms.planner.override(session_id)
        lane = await rooms.store.lanes.get(session.phone) if session.phone else {}
        return {
            "sessionId": session_id,
            "phone": session.phone or None,
            "trust": {"level": trust.level, "since": iso(since)},
            "preset": effective.preset,
            "effective": limits_view(effective.limits),
            "sources": {_NAMES.get(name, name): source for name, source in effective.sources.items()},
            "override": override_view(own) if own else None,
            "overrideEndsAt": iso(effective.changes_at),
            "slowed": {"factor": float(lane["slow"]), "failures": int(lane.get("failures", 0)),
                       "since": iso(lane.get("slowSince"))} if "slow" in lane else None,
            "blocked": {"until": iso(lane["blockedUntil"]), "reason": lane.get("blockReason")}
            if float(lane.get("blockedUntil", 0)) > rooms.clock.now_ms() else None,
        }  # fmt: skip

    async def replan(session_id: str) -> None:
        session = await look.known(session_id)
        if session.phone:
            await replan_lane(session.phone)

    async def replan_lane(phone: str) -> None:
        # marked first, so that no dispatcher writes an older plan over it; then planned here and now: what is sent
        # right after this answer is judged by the new limits
        await rooms.store.lanes.replan(phone)
        await rooms.planner.plan(phone)

    @router.get("/sessions/{session_id}/limits", summary="A session's limits and where each comes from")
    async def get_limits(session_id: str) -> dict[str, Any]:
        return await shown(session_id)

    @router.put("/sessions/{session_id}/limits", summary="Override a session's limits")
    async def put_limits(session_id: str, body: LimitsBody) -> dict[str, Any]:
        """Each field is optional, null means no such limit. What is not named comes from the table again."""
        await look.known(session_id)
        override = read_override(body, now_ms=rooms.clock.now_ms())
        await rooms.store.lanes.set_override(session_id, override_view(override))
        await replan(session_id)
        return await shown(session_id)

    @router.delete("/sessions/{session_id}/limits", summary="Remove a session's override")
    async def delete_limits(session_id: str) -> dict[str, Any]:
        await look.known(session_id)
        await rooms.store.lanes.set_override(session_id, None)
        await replan(session_id)
        return await shown(session_id)

    @router.get("/limits", summary="The override for all phones, and the presets")
    async def get_global() -> dict[str, Any]:
        override = await rooms.planner.override("global")
        return {"override": override_view(override) if override else None, "presets": list(PRESETS)}

    @router.put("/limits", summary="Override the limits of all phones")
    async def put_global(body: LimitsBody) -> dict[str, Any]:
        override = read_override(body, now_ms=rooms.clock.now_ms())
        await rooms.store.lanes.set_override("global", override_view(override))
        await replan_all()
        return await get_global()

    @router.delete("/limits", summary="Remove the override for all phones")
    async def delete_global() -> dict[str, Any]:
        await rooms.store.lanes.set_override("global", None)
        await replan_all()
        return await get_global()

    async def replan_all() -> None:
        for phone in {s.phone for s in await rooms.store.sessions.all() if s.phone}:
            await replan_lane(phone)

    return router
