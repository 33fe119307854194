"""The embedded store: a real Valkey in the data folder, started, found again after a crash, and looked after."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import structlog

from wa_orchestrator.background import SameTrouble, wait_or_stop
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.processes import logfiles
from wa_orchestrator.processes.detached import Detached, LaunchFailed, find, start_detached
from wa_orchestrator.processes.filelock import is_locked, try_lock
from wa_orchestrator.store.valkey_server import Answer, ask, configuration, find_binary, free_port, port_is_free

log = structlog.get_logger()

_READY_TIMEOUT_S = 10.0  # an empty store is ready in 0.1 s
_LOADING_TIMEOUT_S = 120.0  # about 10 GB of append-only file
# from fork to pid file takes 15 ms; the rewriting child of a killed server ends within seconds
_BIRTH_TIMEOUT_S = 10.0
_STOP_TIMEOUT_S = 30.0  # it writes out its file before it ends
_BACK_OFF_S = (0.2, 5.0)  # first and longest pause before a dead server is started again
_STEADY_S = 30.0  # one that lived so long did not die of its start
_LOG_BYTES = 5 * 1024 * 1024


class EmbeddedStore:
    """One Valkey server for one data folder, reachable only from this machine and with a password."""

    def __init__(self, data_path: Path, fsync: Literal["always", "everysec"] = "always") -> None:
        self._path = data_path.absolute()
        self._fsync = fsync
        self._pid_file = self._path / "valkey.pid"
        self._log_file = self._path / "valkey.log"
        # The server itself holds this lock as long as it lives: two servers writing one append-only file would
        # destroy it, so that must be impossible even if the pid file is lost.
        self._server_lock = self._path / "server.lock"
        self._process: Detached | None = None
        self._port: int | None = None  # set once: our clients know it
        self._stopping = False
        self._not_started = SameTrouble()

    async def start(self) -> str:
        """Finds the server that still runs, or starts it; returns its URL when it answers."""
        self._stopping = False
        return await self._find_or_start()

    async def run(self, stop: asyncio.Event) -> None:
        """Starts the server again, on the same port, whenever it ends."""
        pause_s = _BACK_OFF_S[0]
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            began = loop.time()
            if not await self._ended_before(stop):
                return
            if loop.time() - began > _STEADY_S:
                pause_s = _BACK_OFF_S[0]
            if self._process is not None:  # else it is the start that failed
                log.error("store_died", pause_s=pause_s, last_words=logfiles.last_lines(self._log_file, 3))
            if await wait_or_stop(stop, pause_s) or self._stopping:
                return
            pause_s = min(pause_s * 2, _BACK_OFF_S[1])
            await self._try_again()

    async def stop(self) -> None:
        """Ends the server; returns when it is gone. Repeating it is harmless."""
        self._stopping = True
        async with self._alone_in_folder():  # a start under way is waited for, then ended
            process = self._process or find(self._pid_file)
            if process is not None:
                await process.stop(_STOP_TIMEOUT_S)
                self._pid_file.unlink(missing_ok=True)
            self._process = None

    # ------------------------------------------------------------------------------------------- supervision
    async def _ended_before(self, stop: asyncio.Event) -> bool:
        """Waits for the server's end; False when `stop` comes first, or the end was wanted."""
        if self._process is None:
            return not self._stopping
        ended = asyncio.create_task(self._process.wait())
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (ended, stopped):
                task.cancel()
            await asyncio.gather(ended, stopped, return_exceptions=True)
        return not (stop.is_set() or self._stopping)

    async def _try_again(self) -> None:
        try:
            await self._find_or_start()
        except Exception as error:
            self._process = None
            if times := self._not_started.again():
                log.error("store_not_started", error=str(error), times=times)
        else:
            log.warning("store_started_again", port=self._port)

    # ---------------------------------------------------------------------------------------------- starting
    async def _find_or_start(self) -> str:
        async with self._alone_in_folder():
            if self._stopping:
                raise StoreUnavailable("The embedded store is being stopped.")
            password = self._password()
            self._process = await self._running_server(password) or await self._new_server(password)
            return f"redis://:{password}@127.0.0.1:{self._port}/0"

    async def _running_server(self, password: str) -> Detached | None:
        """The server left by an earlier control plane, if it answers."""
        process, port = await self._left_running(), self._kept_port()
        if process is None:
            return None
        if port is None or not await self._gets_ready(process, port, password):
            log.warning("store_found_but_silent", pid=process.pid)
            await process.stop(_STOP_TIMEOUT_S)
            return None
        # the setting may have changed since that server was started
        await ask(port, password, f"CONFIG SET appendfsync {self._fsync}")
        log.info("store_found_running", pid=process.pid, port=port)
        self._port = port
        return process

    async def _left_running(self) -> Detached | None:
        # while the lock is held but no pid file names a living server, the server is just being born or just dying
        until = asyncio.get_running_loop().time() + _BIRTH_TIMEOUT_S
        while (process := find(self._pid_file)) is None and is_locked(self._server_lock):
            if asyncio.get_running_loop().time() > until:
                return None
            await asyncio.sleep(0.02)
        return process

    async def _new_server(self, password: str) -> Detached:
        with try_lock(self._server_lock) as lock_fd:
            # before anything is written: the files still describe the server that holds the lock
            if lock_fd is None:
                raise StoreUnavailable(f"An unknown process uses the store in {self._path}. Stop it first.")
            port = self._choose_port()
            _write_private(self._path / "port", str(port))
            process = await self._launch(self._configure(port, password), lock_fd)
        try:
            await self._until_ready(process, port, password)
        except BaseException:
            await asyncio.shield(process.stop(_STOP_TIMEOUT_S))
            raise
        log.info("store_started", pid=process.pid, port=port)
        self._port = port
        return process

    def _choose_port(self) -> int:
        if self._port is not None:
            return self._port
        kept = self._kept_port()
        return kept if kept is not None and port_is_free(kept) else free_port()

    def _configure(self, port: int, password: str) -> Path:
        file = self._path / "valkey.conf"
        _write_private(file, configuration(folder=self._path, port=port, password=password, fsync=self._fsync))
        return file

    async def _launch(self, config: Path, lock_fd: int) -> Detached:
        logfiles.turn_over(self._log_file, _LOG_BYTES)
        try:
            return await start_detached(
                [str(find_binary()), str(config)],
                env={"PATH": os.defpath},
                cwd=self._path,
                log_file=self._log_file,
                pid_file=self._pid_file,
                lock_fd=lock_fd,
            )
        except LaunchFailed as error:
            raise StoreUnavailable(f"The embedded store cannot be started: {error}.") from error

    async def _gets_ready(self, process: Detached, port: int, password: str) -> bool:
        try:
            await self._until_ready(process, port, password)
        except StoreUnavailable:
            return False
        return True

    async def _until_ready(self, process: Detached, port: int, password: str) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        timeout_s = _READY_TIMEOUT_S
        while process.alive():
            answer = await ask(port, password)
            if answer is Answer.READY:
                return
            if answer is Answer.LOADING:
                timeout_s = _LOADING_TIMEOUT_S
            if loop.time() - began > timeout_s:
                raise self._not_ready(f"did not answer within {timeout_s:.0f} seconds")
            await asyncio.sleep(0.02)
        raise self._not_ready("ended at once")

    def _not_ready(self, what: str) -> StoreUnavailable:
        said = "\n".join(logfiles.last_lines(self._log_file, 8))
        return StoreUnavailable(f"The embedded store {what}. The last lines of {self._log_file}:\n{said}")

    # ------------------------------------------------------------------------------------------------- files
    @contextlib.asynccontextmanager
    async def _alone_in_folder(self) -> AsyncIterator[None]:
        """Two control planes that start together on one folder come one after the other."""
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.chmod(0o700)
        loop = asyncio.get_running_loop()
        until = loop.time() + _LOADING_TIMEOUT_S + _STOP_TIMEOUT_S
        while loop.time() < until:
            with try_lock(self._path / ".lock") as fd:
                if fd is not None:
                    yield
                    return
            await asyncio.sleep(0.05)
        raise StoreUnavailable(f"Another server is starting on {self._path} and does not get ready.")

    def _password(self) -> str:
        file = self._path / "password"
        with contextlib.suppress(FileNotFoundError):
            kept = file.read_text(encoding="ascii").strip()
            if kept:
                return kept
        made = secrets.token_urlsafe(32)
        _write_private(file, made)
        return made

    def _kept_port(self) -> int | None:
        try:
            port = int((self._path / "port").read_text(encoding="ascii"))
        except (OSError, ValueError):
            return None
        return port if 0 < port < 65536 else None


def _write_private(file: Path, text: str) -> None:
    unfinished = file.with_name(f"{file.name}.tmp")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(file)
