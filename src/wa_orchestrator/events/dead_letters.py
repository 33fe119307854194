"""Gives up what was tried for days: it becomes a dead letter, and the next event has its turn."""

from __future__ import annotations

from wa_orchestrator.events import retrying
from wa_orchestrator.events.receiver import Receiver
from wa_orchestrator.events.window import Lane, Window


def bury_what_is_over(
    window: Window, failed: Lane, *, receiver: Receiver, error: str, now_ms: int, retry_ms: int
) -> int:
    """How many. When the receiver is away, not only of the lane that failed, but everything that is as old."""
    buried = 0
    for lane in list(window.lanes.values()) if receiver.away else [failed]:
        if lane.busy and lane is not failed:
            continue
        since = max(lane.since, receiver.since if receiver.away else 0) or now_ms
        waiting = list(lane.stored if lane.parked else lane.queue)
        # while it takes others, what stands behind the refused one has not been tried yet
        for entry in waiting if receiver.away else waiting[:1]:
            if retrying.is_over(noted_at=entry.at, failing_since=since, now_ms=now_ms, retry_ms=retry_ms):
                tries = max(lane.failures, receiver.failures)
                window.bury(lane, entry, reason=lane.error or error, tries=tries, now_ms=now_ms)
                buried += 1
    return buried
