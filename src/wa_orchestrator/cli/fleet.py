"""Work on the whole fleet: one session after the other, each back before the next."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from wa_orchestrator.cli.api import Api, segment
from wa_orchestrator.cli.errors import CliError

_LOOK_AGAIN_S = 0.5
_PAGE = 500


def running_sessions(api: Api) -> list[str]:
    """All sessions that are meant to run."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = api.get("/api/sessions", limit=_PAGE, cursor=cursor)
        found += [s["sessionId"] for s in page["sessions"] if s["wanted"] == "running"]
        cursor = page["nextCursor"]
        if not cursor:
            return found


def rolling_restart(timeout_s: float) -> Callable[[Api, str], Any]:
    """Restarts a session and waits until it is as it was before: connected, or showing a code."""

    def act(api: Api, session_id: str) -> Any:
        path = f"/api/sessions/{segment(session_id)}"
        goal = "connected" if api.get(path)["status"] == "connected" else None
        answer = api.post(f"{path}/restart")
        deadline = time.monotonic() + timeout_s
        while goal and answer["status"] != goal:
            if time.monotonic() > deadline:
                raise CliError(
                    "NOT_BACK", f"{session_id} is not connected again after {timeout_s:.0f} s; the rest was left alone."
                )
            time.sleep(_LOOK_AGAIN_S)
            answer = api.get(path)
        return answer

    return act
