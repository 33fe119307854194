"""Compares wanted with running, again and again, and on every worker's death at once."""

from __future__ import annotations

import asyncio
import time

import structlog

from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.gateway.media import MediaStore
from wa_orchestrator.model.session import SAYS_IT_LIVES, Status
from wa_orchestrator.runners.port import Runner, WorkerExit
from wa_orchestrator.sessions import folders
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.sessions.plan import Step, next_step
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_HOUSEKEEPING_S = 3600.0
_KEEP_UPLOADS_S = 7 * 86400
# Exit codes of the worker that a restart cannot cure (docs/reference/worker-protocol.md).
_HOPELESS = {64: "WORKER_SETTINGS", 65: "CREDENTIALS_UNREADABLE"}
_STARTING_MS = 15_000  # after this a start is slow for another reason than the machine's load
_CRASH_LOOP = 10  # about two minutes of restarts


def pause_before_restart_s(crashes: int) -> float:
    """The first restart comes at once, then 1, 2, 4 … 60 s: a worker that cannot live must not eat the machine."""
    return 0.0 if crashes <= 1 else float(min(_FIRST_PAUSE_S * 2 ** (crashes - 2), _LONGEST_PAUSE_S))


class Reconciler:
    def __init__(
        self,
        *,
        store: Store,
        runner: Runner,
        lifecycle: Lifecycle,
        media: MediaStore,
        settings: Settings,
        clock: Clock,
    ) -> None:
        self._media = media
        self._store = store
        self._runner = runner
        self._lifecycle = lifecycle
        self._settings = settings
        self._clock = clock
        self.wake = asyncio.Event()
        self._crashes: dict[str, int] = {}
        self._exit_codes: dict[str, int | None] = {}
        self._failures: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._next_housekeeping = 0.0
        self._next_full_look = 0.0
        self._seen: frozenset[str] = frozenset()
        self._unfinished: set[str] = set()
        runner.on_exit(self._worker_ended)

    def _worker_ended(self, ended: WorkerExit) -> None:
        if self._lifecycle.is_held(ended.session_id):
            return  # stopped for a moment on purpose, and started again by whoever holds it
        self._exit_codes[ended.session_id] = ended.exit_code
        if ended.exit_code != 0:  # 0: it was asked to end
            crashes = self._crashes.get(ended.session_id, 0) + 1
            self._crashes[ended.session_id] = crashes
            self._not_before[ended.session_id] = time.monotonic() + pause_before_restart_s(crashes)
        self.wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        every_s = self._settings.provisioning_interval_ms / 1000
        self._next_full_look = 0.0  # whoever leads now begins with everything
        await repeat(self.run_once, stop, every_s=every_s, name="reconciler", wake=self.wake)

    async def run_once(self) -> None:
        await self._lifecycle.sweep_half_made(own=False)
        await self._release_unscanned()
        await self._reconcile()
        if time.monotonic() >= self._next_housekeeping:
            self._next_housekeeping = time.monotonic() + _HOUSEKEEPING_S
            keep_ms = self._settings.deleted_keep_days * 86_400_000
            self._media.remove_old(older_than_s=time.time() - _KEEP_UPLOADS_S)
            folders.remove_old(self._settings.sessions_path, older_than_ms=self._clock.now_ms() - keep_ms)

    async def _release_unscanned(self) -> None:
        for session_id in await self._store.sessions.overdue_unscanned():
            released = await self._store.sessions.release(
                session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED, only_unscanned=True
            )
            if released:
                log.info("unscanned_session_released", session_id=session_id)

    async def _reconcile(self) -> None:
        crashes = dict(self._crashes)  # of before: a worker may die while we look, and still be in what we read
        running = {worker.session_id: worker for worker in await self._runner.list_running()}
        # read after the workers: a session made meanwhile has a worker we do not know, never the other way round
        suspects, starting = await self._suspects(frozenset(running))
        waiting = await self._store.sessions.waiting()
        sessions = await self._store.sessions.many(sorted(suspects), waiting=waiting)
        half_made = await self._store.sessions.unconfirmed()
        # a cold start costs about a CPU second; five hundred at once would starve each other
        starts = self._settings.start_budget - starting
        self._unfinished = {session_id for session_id in suspects if self._lifecycle.is_held(session_id)}
        for session in sessions:
            session_id = session.session_id
            if session_id in half_made or self._lifecycle.is_held(session_id):
                continue
            worker = running.get(session_id)
            if worker and session.status in SAYS_IT_LIVES and self._crashes.get(session_id) == crashes.get(session_id):
                self._crashes.pop(session_id, None)
            step = next_step(session, worker)
            if step is Step.NOTHING:
                continue
            self._unfinished.add(session_id)  # whatever becomes of it: the next look sees whether it is settled
            if step is Step.START:
                if session.status in SAYS_IT_LIVES:
                    await self._store.sessions.begin_run(session_id, reason="WORKER_DIED")
                if reason := self._hopeless(session_id):
                    log.error("session_given_up", session_id=session_id, reason=reason)
                    await self._store.sessions.end(session_id, reason=reason)
                    continue
                if starts <= 0 or time.monotonic() < self._not_before.get(session_id, 0.0):
                    continue
                starts -= 1
                if self._crashes.get(session_id):
                    await self._store.sessions.count_restart(session_id)
            await self._ensure(session_id)
        known = {session.session_id for session in sessions}
        for session_id in (running.keys() & suspects) - known - half_made:
            log.warning("unknown_worker_stopped", session_id=session_id)
            await self._ensure(session_id)

    async def _suspects(self, running: frozenset[str]) -> tuple[set[str], int]:
        """Sessions to look at, and how many workers are just starting.

        Thousands that run as they should cost next to nothing: looked at are those the store knows to be unsettled,
        those whose worker came or went, and those with a trouble we remember. Now and then all of them, to be sure.
        """
        suspects, starting = await self._store.sessions.unsettled(starting_ms=_STARTING_MS)
        suspects |= running ^ self._seen
        suspects |= self._unfinished | self._crashes.keys() | self._failures.keys()
        if time.monotonic() >= self._next_full_look:
            self._next_full_look = time.monotonic() + self._settings.monitor_interval_ms / 1000
            suspects |= running | set(await self._store.sessions.all_ids())
        self._seen = running
        return suspects, starting

    def _hopeless(self, session_id: str) -> str:
        """Why starting it again makes no sense; said once, then an operator's start counts from zero."""
        reason = _HOPELESS.get(self._exit_codes.get(session_id) or 0, "")
        if not reason and self._crashes.get(session_id, 0) >= _CRASH_LOOP:
            reason = "CRASH_LOOP"
        if reason:
            self._crashes.pop(session_id, None)
            self._exit_codes.pop(session_id, None)
        return reason

    async def _ensure(self, session_id: str) -> None:
        try:
            await self._lifecycle.ensure(session_id)
        except (OrchestratorError, OSError) as error:
            # One session's trouble (its folder's, too) must not keep the others waiting. It is not a crash: an engine
            # or a disk that is away for some minutes must not end sessions as a crash loop.
            failures = self._failures.get(session_id, 0) + 1
            self._failures[session_id] = failures
            self._not_before[session_id] = time.monotonic() + pause_before_restart_s(failures + 1)
            log.warning("session_not_reconciled", session_id=session_id, error=str(error))
        else:
            self._failures.pop(session_id, None)
