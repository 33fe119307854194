"""Runs each worker as a local process that outlives the control plane and is adopted by the next one."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

import structlog

from wa_orchestrator.clock import Clock, SystemClock
from wa_orchestrator.errors import RunnerUnavailable
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.processes import logfiles
from wa_orchestrator.processes.detached import Detached, LaunchFailed, find, start_detached
from wa_orchestrator.processes.filelock import is_locked, try_lock
from wa_orchestrator.runners.port import RunningWorker, WorkerExit, WorkerLocked, WorkerSpec, tell_of_exit
from wa_orchestrator.runners.run_records import RunRecords, handle_of

log = structlog.get_logger()

# An earlier control plane may have been killed between fork and pid file: the worker is there, its name is not yet.
_PID_FILE_GRACE_S = 2.0
_LOCK = ".lock"  # part of the worker contract: every launcher locks this file of the session's folder


@dataclass(frozen=True, kw_only=True)
class _Entry:
    worker: RunningWorker
    process: Detached
    watcher: asyncio.Task[None]


class ProcessRunner:
    """Workers as child processes: own process group, own log file, own locked folder."""

    def __init__(
        self,
        *,
        sessions_path: Path,
        run_path: Path,
        logs_path: Path,
        command: Sequence[str],
        base_env: Mapping[str, str],
        log_bytes: int,
        clock: Clock | None = None,
    ) -> None:
        self._sessions_path = sessions_path.absolute()
        self._run_path = run_path.absolute()
        self._logs_path = logs_path.absolute()
        self._command = tuple(command)
        self._base_env = dict(base_env)
        self._log_bytes = log_bytes
        self._clock = clock or SystemClock()
        self._records = RunRecords(self._run_path)
        self._entries: dict[str, _Entry] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._turning_logs = asyncio.Lock()
        self._tell: list[Callable[[WorkerExit], None]] = []
        self._closed = False

    @property
    def outlives_server(self) -> bool:
        return False

    def on_exit(self, tell: Callable[[WorkerExit], None]) -> None:
        self._tell.append(tell)

    async def open(self) -> list[RunningWorker]:
        self._make_folders()
        await asyncio.gather(*map(self._adopt_or_forget, self._records.session_ids()))
        return self._running()

    async def start(self, spec: WorkerSpec) -> RunningWorker:
        checked_session_id(spec.session_id)  # it becomes a path
        async with self._alone_with(spec.session_id):
            if self._closed:
                raise RunnerUnavailable("The server is stopping; no worker is started any more.")
            entry = await self._living_entry(spec.session_id)
            if entry is None:
                entry = await self._start_or_adopt(spec)
            return entry.worker

    async def stop(self, session_id: str, *, timeout_s: float = 12.0) -> None:
        checked_session_id(session_id)
        async with self._alone_with(session_id):
            entry = self._entries.get(session_id) or self._adopt(session_id)
            if entry is None:
                return
            try:
                await entry.process.stop(timeout_s)
            except TimeoutError as error:
                raise RunnerUnavailable(f"The worker of {session_id} does not end, not even by KILL.") from error
            await asyncio.wait([entry.watcher])  # the exit is told before we return

    async def poll(self, session_id: str) -> RunningWorker | None:
        entry = self._entries.get(session_id)
        return entry.worker if entry is not None and entry.process.alive() else None

    async def list_running(self) -> list[RunningWorker]:
        await self._keep_logs_small()
        return self._running()

    async def close(self, *, stop_workers: bool) -> None:
        self._closed = True
        session_ids = {*self._entries, *self._locks}  # a start under way holds a lock and has no entry yet
        end = self.stop if stop_workers else self._let_go
        results = await asyncio.gather(*(end(session_id) for session_id in session_ids), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                log.error("worker_not_stopped", error=str(result))

    # ---------------------------------------------------------------------------------------------- starting
    async def _living_entry(self, session_id: str) -> _Entry | None:
        entry = self._entries.get(session_id)
        if entry is None or entry.process.alive():
            return entry
        await asyncio.wait([entry.watcher])  # it has just ended: its exit is told before a new one starts
        return None

    async def _start_or_adopt(self, spec: WorkerSpec) -> _Entry:
        folder = self._folder(spec.session_id)
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.chmod(0o700)
            with try_lock(folder / _LOCK) as lock_fd:
                if lock_fd is not None:
                    return await self._spawn(spec, lock_fd)
        except OSError as error:
            raise RunnerUnavailable(f"The worker of {spec.session_id} could not be started: {error}.") from error
        # it may be our own, started by a control plane that was killed an instant ago
        entry = self._adopt(spec.session_id)
        if entry is None:
            raise WorkerLocked(f"The folder of session {spec.session_id} is in use by another worker.")
        return entry

    async def _spawn(self, spec: WorkerSpec, lock_fd: int) -> _Entry:
        self._make_folders()
        log_file = self._log_file(spec.session_id)
        logfiles.turn_over(log_file, self._log_bytes)
        env = self._environment(spec)
        started_at = self._clock.now_ms()
        try:
            self._records.write(spec, started_at=started_at)
            process = await start_detached(
                self._command,
                env=env,
                cwd=self._folder(spec.session_id),
                log_file=log_file,
                pid_file=self._records.pid_file(spec.session_id),
                lock_fd=lock_fd,
            )
        except LaunchFailed as error:
            self._records.remove(spec.session_id)
            raise RunnerUnavailable(f"The worker program cannot be started: {error}.") from error
        except BaseException:  # cancelled: nothing keeps running
            self._records.remove(spec.session_id)
            raise
        worker = RunningWorker(
            session_id=spec.session_id,
            run_order=spec.run_order,
            proxy_id=spec.proxy_id,
            handle=handle_of(process.pid),
            started_at=started_at,
        )
        log.info("worker_started", session_id=spec.session_id, pid=process.pid, run_order=spec.run_order)
        return self._enter(worker, process)

    def _environment(self, spec: WorkerSpec) -> dict[str, str]:
        # exactly this and nothing of our own environment, which may hold secrets of the whole installation
        return {**self._base_env, **spec.environment(), "SESSIONS_DIR": str(self._sessions_path)}

    # ---------------------------------------------------------------------------------------------- adopting
    async def _adopt_or_forget(self, session_id: str) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _PID_FILE_GRACE_S
        async with self._alone_with(session_id):
            while session_id not in self._entries and not self._adopt(session_id):
                if not is_locked(self._folder(session_id) / _LOCK):
                    self._records.remove(session_id)
                    return
                if loop.time() > until:
                    log.warning("worker_folder_held_by_unknown_process", session_id=session_id)
                    return
                await asyncio.sleep(0.02)

    def _adopt(self, session_id: str) -> _Entry | None:
        process = find(self._records.pid_file(session_id))
        if process is None or not _works_for(process.pid, session_id):
            return None
        worker = self._records.read(session_id, pid=process.pid)
        if worker is None:
            return None
        log.info("worker_adopted", session_id=session_id, pid=process.pid, run_order=worker.run_order)
        return self._enter(worker, process)

    # ---------------------------------------------------------------------------------------------- watching
    def _enter(self, worker: RunningWorker, process: Detached) -> _Entry:
        # a context of its own: the request that happened to start it is not the cause of its end
        watcher = asyncio.create_task(
            self._watch(worker, process), name=f"watch {worker.session_id}", context=contextvars.Context()
        )
        entry = _Entry(worker=worker, process=process, watcher=watcher)
        self._entries[worker.session_id] = entry
        return entry

    async def _watch(self, worker: RunningWorker, process: Detached) -> None:
        exit_code = await _exit_code_of(process, worker.session_id)
        self._entries.pop(worker.session_id, None)
        self._forget(worker.session_id)
        log.info("worker_ended", session_id=worker.session_id, pid=process.pid, exit_code=exit_code)
        ended = WorkerExit(session_id=worker.session_id, run_order=worker.run_order, exit_code=exit_code)
        tell_of_exit(self._tell, ended)

    def _forget(self, session_id: str) -> None:
        try:
            self._records.remove(session_id)
        except OSError as error:  # it names a dead process, which the next start notices
            log.warning("run_record_left", session_id=session_id, error=str(error))

    async def _let_go(self, session_id: str) -> None:
        async with self._alone_with(session_id):
            entry = self._entries.pop(session_id, None)
            if entry is not None:
                entry.watcher.cancel()
                await asyncio.gather(entry.watcher, return_exceptions=True)

    def _running(self) -> list[RunningWorker]:
        return [entry.worker for entry in self._entries.values() if entry.process.alive()]

    # ------------------------------------------------------------------------------------------ housekeeping
    @asynccontextmanager
    async def _alone_with(self, session_id: str) -> AsyncIterator[None]:
        """Starts and stops of one session come one after the other. Locks nobody uses vanish by themselves."""
        lock = self._locks.setdefault(session_id, asyncio.Lock())
        async with lock:
            yield

    async def _keep_logs_small(self) -> None:
        """A worker runs for months, so its log is also turned over while it runs."""
        if self._turning_logs.locked():
            return
        async with self._turning_logs:
            for log_file in self._large_logs(list(self._entries)):
                await asyncio.to_thread(logfiles.turn_over_in_use, log_file, self._log_bytes)

    def _large_logs(self, session_ids: Iterable[str]) -> list[Path]:
        files = map(self._log_file, session_ids)
        return [file for file in files if logfiles.is_larger(file, self._log_bytes)]

    def _folder(self, session_id: str) -> Path:
        return self._sessions_path / session_id

    def _log_file(self, session_id: str) -> Path:
        return self._logs_path / f"{session_id}.log"

    def _make_folders(self) -> None:
        for folder in (self._sessions_path, self._run_path, self._logs_path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)


async def _exit_code_of(process: Detached, session_id: str) -> int | None:
    while True:
        try:
            return await process.wait()
        except OSError as error:  # no file descriptor left: the end must be noticed all the same, only later
            log.error("worker_not_watched", session_id=session_id, error=str(error))
            await asyncio.sleep(1)


def _works_for(pid: int, session_id: str) -> bool:
    """Whether the process was started for this session: a pid file alone is not believed."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"SESSION_ID={session_id}".encode() in entries
