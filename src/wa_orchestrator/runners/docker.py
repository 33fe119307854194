"""Runs each worker as a Docker container that outlives the control plane and is adopted by the next one.

The engine's own restart policy is for the time when no control plane watches. While one does, a death is told and the
engine's restart is called off: back-off and giving up are decided in one place.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import structlog
from aiodocker.containers import DockerContainer

from wa_orchestrator.errors import RunnerUnavailable
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.processes import logfiles
from wa_orchestrator.processes.filelock import is_locked
from wa_orchestrator.runners.docker_container import (
    ContainerEvent,
    ContainerRules,
    Found,
    container_config,
    filters_for,
    found,
    name_of,
)
from wa_orchestrator.runners.docker_engine import TROUBLE, DockerEngine, ignored, plain
from wa_orchestrator.runners.docker_events import follow
from wa_orchestrator.runners.docker_folder import prepare_folder
from wa_orchestrator.runners.port import RunningWorker, WorkerExit, WorkerLocked, WorkerSpec, tell_of_exit

log = structlog.get_logger()

_LOCK = ".lock"  # part of the worker contract
_STARTS_AT_ONCE = 8  # more only makes each start slower: measured, the engine is the limit
_LOOKS_AT_ONCE = 16
_KILL_S = 10.0
_LOOK_AGAIN_S = 0.5
_REST_S = 2.0
_LAST_LINES = 50
_LOG_BYTES = 1 << 20


@dataclass
class _Entry:
    """A container that runs, or is just being started."""

    container_id: str
    worker: RunningWorker
    started_ns: int
    up: bool
    ended: asyncio.Event


class DockerRunner:
    """Workers as containers `wa_session_<id>`, ours by their installation label."""

    def __init__(self, *, docker_host: str, rules: ContainerRules, sessions_path: Path, logs_path: Path) -> None:
        self._engine = DockerEngine(docker_host, rules)
        self._rules = rules
        self._sessions_path = sessions_path.absolute()
        self._logs_path = logs_path.absolute()
        self._entries: dict[str, _Entry] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._starts = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._tell: list[Callable[[WorkerExit], None]] = []
        self._follower: asyncio.Task[None] | None = None
        self._resting: dict[str, asyncio.Task[None]] = {}  # by container id
        self._closed = False

    @property
    def outlives_server(self) -> bool:
        return True  # so that an upgrade of the server disconnects nobody

    def on_exit(self, tell: Callable[[WorkerExit], None]) -> None:
        self._tell.append(tell)

    async def open(self) -> list[RunningWorker]:
        began_ns = time.time_ns()
        with self._engine.told_plainly("The Docker runner cannot start"):
            await self._compare()
        if self._follower is None:
            ours = filters_for(self._rules.installation)
            events = follow(self._engine.docker, filters=ours, since_ns=began_ns, connected=self._compare)
            self._follower = asyncio.create_task(self._listen(events), name="docker events")
        return self._running()

    async def start(self, spec: WorkerSpec) -> RunningWorker:
        session_id = checked_session_id(spec.session_id)  # it becomes a path and a name
        async with self._alone_with(session_id):
            if self._closed:
                raise RunnerUnavailable("The server is stopping; no worker is started any more.")
            with self._engine.told_plainly(f"The worker of {session_id} could not be started"):
                there = await self._engine.look(session_id)
                if there and self._counts_as_running(there):
                    return self._enter(there).worker
                if there:
                    await self._engine.remove(there.container_id)
                spec = prepare_folder(self._folder(session_id), spec, user=self._rules.user)
                if is_locked(self._folder(session_id) / _LOCK):
                    raise WorkerLocked(f"The folder of session {session_id} is in use by another worker.")
                async with self._starts:
                    return await self._run(spec)

    async def stop(self, session_id: str, *, timeout_s: float = 12.0) -> None:
        checked_session_id(session_id)
        async with self._alone_with(session_id):
            with self._engine.told_plainly(f"The worker of {session_id} could not be stopped"):
                there = await self._engine.look(session_id, foreign_is_an_error=False)
                if there is None:
                    self._lost(session_id)
                    return
                if self._counts_as_running(there):
                    await self._end(self._enter(there), timeout_s)
                await self._engine.remove(there.container_id)

    async def poll(self, session_id: str) -> RunningWorker | None:
        with self._engine.told_plainly(f"The worker of {session_id} cannot be looked at"):
            there = await self._engine.look(session_id, foreign_is_an_error=False)
        return there.worker if there and self._counts_as_running(there) else None

    async def list_running(self) -> list[RunningWorker]:
        # kept up to date by events: asking for a thousand containers every two seconds would be the larger part
        # of the engine's work
        return self._running()

    async def close(self, *, stop_workers: bool) -> None:
        self._closed = True
        if stop_workers and self._engine.in_use:
            session_ids = {*self._entries, *self._locks}
            results = await asyncio.gather(*map(self.stop, session_ids), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    log.error("worker_not_stopped", error=str(result))
        resting = list(self._resting.values())
        if resting:  # quickly done; cut off in mid-connection they would leave sockets behind
            await asyncio.wait(resting, timeout=_REST_S)
        tasks = [task for task in (self._follower, *resting) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._entries.clear()
        was_in_use = self._engine.in_use
        await self._engine.close()
        if was_in_use:
            await asyncio.sleep(0)  # closed sockets are let go in the loop's next turn

    # ---------------------------------------------------------------------------------------------- starting
    async def _run(self, spec: WorkerSpec) -> RunningWorker:
        container = await self._engine.docker.containers.create(
            container_config(spec, self._rules), name=name_of(spec.session_id)
        )
        # known before it starts: one that dies at once is told like any other
        entry = _Entry(
            container_id=container.id,
            worker=_not_yet(spec, container.id),
            started_ns=0,
            up=False,
            ended=asyncio.Event(),
        )
        self._entries[spec.session_id] = entry
        try:
            await container.start()
            there = found(await container.show())
        except BaseException:  # cancelled, too: nothing keeps running
            self._forget(entry)
            await asyncio.shield(self._engine.remove(container.id))
            raise
        entry.worker, entry.started_ns, entry.up = there.worker, there.started_ns, True
        log.info("worker_started", session_id=spec.session_id, container=entry.worker.handle, run_order=spec.run_order)
        return entry.worker

    # ---------------------------------------------------------------------------------------------- stopping
    async def _end(self, entry: _Entry, timeout_s: float) -> None:
        """TERM, then KILL; the exit is told before this returns."""
        for signal, patience_s in (("SIGTERM", timeout_s), ("SIGKILL", _KILL_S)):
            await self._engine.signal(entry.container_id, signal)
            if await self._ended_within(entry, patience_s):
                return
        raise RunnerUnavailable(f"The worker of {entry.worker.session_id} does not end, not even by KILL.")

    async def _ended_within(self, entry: _Entry, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        while (left_s := until - time.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(entry.ended.wait(), min(left_s, _LOOK_AGAIN_S))
                return True
            # the event stream may be down just now
            await self._check(entry)
        return entry.ended.is_set()

    # ---------------------------------------------------------------------------------------------- watching
    async def _listen(self, events: AsyncIterator[ContainerEvent]) -> None:
        async for event in events:
            try:
                self._take(event)
            except Exception:
                log.exception("docker_event_not_taken", action=event.action)

    def _take(self, event: ContainerEvent) -> None:
        session_id = event.worker.session_id
        entry = self._entries.get(session_id)
        if event.action == "start":
            # by another control plane of this installation, or by the engine itself
            if event.container_id not in self._resting and (entry is None or entry.container_id != event.container_id):
                self._entries[session_id] = _Entry(
                    container_id=event.container_id, worker=event.worker, started_ns=event.at_ns, up=True,
                    ended=asyncio.Event(),
                )  # fmt: skip
        elif entry and entry.container_id == event.container_id and event.at_ns >= entry.started_ns:
            # an event from before its present start is told again after a reconnect; it was counted then
            self._ended(entry, event.exit_code)

    async def _compare(self) -> None:
        """Brings what we know in line with what the engine shows; after every (re)connect."""
        listed = await self._engine.ours()
        gate = asyncio.Semaphore(_LOOKS_AT_ONCE)

        async def look(container: DockerContainer) -> Found | None:
            async with gate:
                return await self._engine.show(container.id)

        looked = await asyncio.gather(*map(look, listed))
        seen = [there for there in looked if there and self._counts_as_running(there)]
        running = {there.container_id for there in seen}
        for entry in list(self._entries.values()):
            if entry.up and entry.container_id not in running:
                await self._check(entry)
        for there in seen:
            self._enter(there)

    async def _check(self, entry: _Entry) -> None:
        """Asks the engine about one container, in place of an event."""
        there = await self._engine.show(entry.container_id)
        if there is None or not there.running:
            self._ended(entry, there.exit_code if there else None)

    def _enter(self, there: Found) -> _Entry:
        """What is known of a running container; one that we did not start is adopted."""
        known = self._entries.get(there.worker.session_id)
        if known and known.container_id == there.container_id:
            if known.up and known.started_ns < there.started_ns and known.worker.started_at != there.worker.started_at:
                log.warning("worker_was_restarted_by_docker", session_id=there.worker.session_id)
                self._say(known, None)
            known.worker, known.started_ns, known.up = there.worker, there.started_ns, True
            return known
        entry = _Entry(
            container_id=there.container_id, worker=there.worker, started_ns=there.started_ns, up=True,
            ended=asyncio.Event(),
        )  # fmt: skip
        self._entries[there.worker.session_id] = entry
        log.info("worker_adopted", session_id=there.worker.session_id, container=there.worker.handle)
        return entry

    def _ended(self, entry: _Entry, exit_code: int | None) -> None:
        if entry.ended.is_set():
            return
        self._forget(entry)
        if not self._closed:
            task = asyncio.create_task(self._rest(entry), name=f"rest {entry.worker.session_id}")
            self._resting[entry.container_id] = task
            task.add_done_callback(lambda _: self._resting.pop(entry.container_id, None))
        self._say(entry, exit_code)
        entry.ended.set()

    def _say(self, entry: _Entry, exit_code: int | None) -> None:
        worker = entry.worker
        log.info("worker_ended", session_id=worker.session_id, container=worker.handle, exit_code=exit_code)
        ended = WorkerExit(session_id=worker.session_id, run_order=worker.run_order, exit_code=exit_code)
        tell_of_exit(self._tell, ended)

    async def _rest(self, entry: _Entry) -> None:
        """Calls the engine's own restart off and keeps the last words; what comes next is decided by whoever heard."""
        session_id = entry.worker.session_id
        try:
            async with self._alone_with(session_id):
                container = self._engine.container(entry.container_id)
                await self._keep_last_words(session_id, container)
                with ignored(304, 404, 409):
                    await container.stop(t=int(_KILL_S))
        except TROUBLE as error:
            # the engine restarts it then; the lock in its folder keeps a second worker out
            log.warning("docker_restart_not_called_off", session_id=session_id, error=plain(error))

    async def _keep_last_words(self, session_id: str, container: DockerContainer) -> None:
        """The container is replaced at once, its log with it."""
        with ignored(404, 409):
            lines = await container.log(stdout=True, stderr=True, tail=_LAST_LINES)
            self._logs_path.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = self._logs_path / f"{session_id}.log"
            logfiles.turn_over(file, _LOG_BYTES)
            with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as log_file:
                log_file.writelines(lines)

    def _lost(self, session_id: str) -> None:
        """Removed behind our back."""
        entry = self._entries.get(session_id)
        if entry:
            self._ended(entry, None)

    def _forget(self, entry: _Entry) -> None:
        if self._entries.get(entry.worker.session_id) is entry:
            del self._entries[entry.worker.session_id]

    def _counts_as_running(self, there: Found) -> bool:
        # one whose end was told is over, even if the engine was quick enough to start it once more
        return there.running and there.container_id not in self._resting

    def _running(self) -> list[RunningWorker]:
        return [entry.worker for entry in self._entries.values() if entry.up]

    @contextlib.asynccontextmanager
    async def _alone_with(self, session_id: str) -> AsyncIterator[None]:
        """Starts and stops of one session come one after the other. Locks nobody uses vanish by themselves."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with lock:
            yield

    def _folder(self, session_id: str) -> Path:
        return self._sessions_path / session_id


def _not_yet(spec: WorkerSpec, container_id: str) -> RunningWorker:
    return RunningWorker(
        session_id=spec.session_id, run_order=spec.run_order, proxy_id=spec.proxy_id, handle=container_id[:12],
        started_at=0,
    )  # fmt: skip
