"""Alerts over HTTP: what stands, what was told, and a test."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from wa_orchestrator.clock import iso
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.views import View
from wa_orchestrator.rooms import Rooms


class AlertView(View):
    id: str | None
    at: str | None
    state: str
    kind: str
    severity: str
    subjects: list[str]
    count: int
    since: str | None
    title: str
    text: str


class ChannelView(View):
    configured: bool
    waiting: int
    left_out: int
    problem: str | None
    problem_since: str | None
    last_sent_at: str | None


class AlertList(View):
    standing: list[AlertView]
    recent: list[AlertView]
    channel: ChannelView


class TestedView(View):
    sent: bool


def alerts_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["alerts"])

    def shown(found: Any) -> AlertView:
        return AlertView(**found.view())

    @router.get("/alerts", summary="What is alarmed now, and the last alerts")
    async def alerts(limit: Annotated[int, Query(ge=1, le=500)] = 100) -> AlertList:
        """`standing`: not over yet, the worst first. `recent`: as they were told, the newest first."""
        standing, recent, channel = (
            await rooms.alerts.standing(), await rooms.alerts.recent(limit=limit), await rooms.alerts.channel()
        )  # fmt: skip
        return AlertList(
            standing=[shown(one) for one in standing],
            recent=[shown(one) for one in recent],
            channel=ChannelView(
                configured=rooms.alerts.configured, waiting=channel.waiting, left_out=channel.left_out,
                problem=channel.problem or None, problem_since=iso(channel.problem_since),
                last_sent_at=iso(channel.last_sent_at),
            ),
        )  # fmt: skip

    @router.post("/alerts/test", summary="Write a test message to the chat now")
    async def test() -> TestedView:
        """200 when Telegram took it; else the error says what to fix."""
        await rooms.alerts.test()
        return TestedView(sent=True)

    return router
