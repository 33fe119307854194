"""Answers what became of a message: gathers its record, its lane and how its session is, and tells the story."""

from __future__ import annotations

from typing import Any

from wa_orchestrator.gateway.story import full_story
from wa_orchestrator.store import Store

# of several sessions of a phone the one that is nearest to sending tells why it waits
_NEAREST_FIRST = ("connected", "reconnecting", "unhealthy", "disconnected", "qr_ready", "pending", "stopped",
                  "logged_out", "failed")  # fmt: skip


async def story_of(store: Store, record: dict[str, str], *, now_ms: int) -> dict[str, Any]:
    lane = await store.lanes.get(record["lane"]) if record.get("lane") else {}
    return full_story(record, lane, now_ms=now_ms, session=await _status_of(store, record))


async def _status_of(store: Store, record: dict[str, str]) -> str:
    named = record.get("outboxOf") or record.get("session")
    names = [named] if named else await store.lanes.sessions_of(record.get("lane", ""))
    statuses = [session.status.value for session in await store.sessions.many(names)]
    return min(statuses, key=_NEAREST_FIRST.index, default="")
