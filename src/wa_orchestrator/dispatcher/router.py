"""Gives messages without a queue a sender, when the dispatcher says that some are due."""

from __future__ import annotations

import asyncio
from typing import Any

from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.dispatcher.routing import Candidate, Senders
from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.lanes import Job

_EVERY_S = 1.0  # should the dispatcher's word be missed
_JOBS_AT_ONCE = 500
_LOOK_AGAIN_MS = 1000
_LOOKS_PER_MS = 2  # messages that nobody can send yet are not looked at more often than this, all together


class Router:
    def __init__(self, *, store: Store, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self.jobs_due = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        await repeat(self.run_once, stop, every_s=_EVERY_S, name="router", wake=self.jobs_due)

    async def run_once(self) -> int:
        """Routes what is due; returns how many found a sender."""
        routed = 0
        # what is put off during this round waits for the next one, or a long list would never end
        now = self._clock.now_ms()
        while jobs := await self._store.lanes.due_jobs(now_ms=now, limit=_JOBS_AT_ONCE):
            routed += await self._store.lanes.route(await self._moves(jobs))
            if len(jobs) < _JOBS_AT_ONCE:
                break
        return routed

    async def _moves(self, jobs: list[Job]) -> list[dict[str, Any]]:
        free = [job for job in jobs if not job.phone and not job.session_id]
        senders = Senders(await self._candidates() if free else [])
        named = await self._store.sessions.many({job.session_id for job in jobs if job.session_id and not job.phone})
        sessions = {session.session_id: session for session in named}
        waiting = await self._store.lanes.jobs_until(self._clock.now_ms() + 60_000)
        again = self._clock.now_ms() + max(_LOOK_AGAIN_MS, waiting // _LOOKS_PER_MS)
        talked = dict(zip([j.message_id for j in free],
                          await self._store.lanes.last_talked([j.recipient for j in free]), strict=True))  # fmt: skip
        moves: list[dict[str, Any]] = []
        chosen_for: dict[str, str] = {}  # earlier in this list: messages to one recipient stay together
        for job in jobs:
            if job.phone:
                moves.append({"id": job.message_id, "lane": job.phone})
            elif job.session_id:
                moves.append(_of_session(job, sessions.get(job.session_id), again=again))
            elif chosen := senders.choose(last_talked=chosen_for.get(job.recipient, talked[job.message_id])):
                chosen_for[job.recipient] = chosen.session_id
                moves.append({"id": job.message_id, "lane": chosen.phone, "session": chosen.session_id})
            else:
                moves.append(_later(job, "NO_SESSION_CONNECTED", again=again))
        return moves

    async def _candidates(self) -> list[Candidate]:
        glances = await self._store.sessions.glances()
        connected = [s for s in glances if s.status is Status.CONNECTED and s.phone]
        rooms = await self._store.lanes.rooms({session.phone for session in connected}, now_ms=self._clock.now_ms())
        return [
            Candidate(session_id=s.session_id, phone=s.phone, room=rooms[s.phone].left, waiting=rooms[s.phone].waiting)
            for s in connected
        ]


def _of_session(job: Job, session: Session | None, *, again: int) -> dict[str, Any]:
    if session is None or session.wanted is Wanted.DELETED:
        return {"id": job.message_id, "fail": "SESSION_DELETED"}
    if not session.phone:
        return _later(job, "SESSION_NOT_LINKED", again=again)
    return {"id": job.message_id, "lane": session.phone}


def _later(job: Job, reason: str, *, again: int) -> dict[str, Any]:
    return {"id": job.message_id, "again": again, "waitingFor": reason}
