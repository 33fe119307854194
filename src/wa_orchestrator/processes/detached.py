"""Starts programs that outlive us, finds them again, watches and stops them without ever touching a foreign process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wa_orchestrator.processes import launch
from wa_orchestrator.processes.identity import (
    ProcessIdentity,
    identity_of,
    is_alive,
    is_present,
    read_identity,
)

# the step from fork to exec takes 15 ms; a machine that needs longer than this is beyond help
_LAUNCH_TIMEOUT_S = 20.0
# after KILL only the kernel can hold a process, for example on a dead network disk
_KILL_TIMEOUT_S = 10.0


class LaunchFailed(Exception):
    """The program could not be started; the text says why."""


class Detached:
    """A program in its own session and process group, started by us or by an earlier control plane."""

    def __init__(self, identity: ProcessIdentity) -> None:
        self.identity = identity
        self._exit_code: int | None = None

    @property
    def pid(self) -> int:
        return self.identity.pid

    def alive(self) -> bool:
        return is_alive(self.identity)

    async def wait(self) -> int | None:
        """Returns when it has ended, with the exit code if it was our child; -9 means ended by signal 9."""
        with self._pidfd() as fd:
            if fd is not None:
                await _until_readable(fd)
                self._reap(fd)
        return self._exit_code

    def signal(self, number: signal.Signals) -> bool:
        """Sends a signal; False when it has ended."""
        with self._pidfd() as fd:
            if fd is None:
                return False
            try:
                signal.pidfd_send_signal(fd, number)
            except ProcessLookupError:
                return False
            return True

    async def stop(self, timeout_s: float) -> int | None:
        """Asks with TERM, insists with KILL on the whole group after `timeout_s`; returns when it is gone."""
        self.signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.wait(), timeout_s)
        except TimeoutError:
            self._kill_group()
        return await asyncio.wait_for(self.wait(), _KILL_TIMEOUT_S)

    def _kill_group(self) -> None:
        # as long as the leader holds its pid, nobody else can have a group of that number
        with contextlib.suppress(ProcessLookupError):
            if is_present(self.identity) and os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
        self.signal(signal.SIGKILL)

    @contextlib.contextmanager
    def _pidfd(self) -> Iterator[int | None]:
        """A file descriptor that means this process and no other; None when it is gone."""
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            # compared after opening: from here on the descriptor cannot come to mean someone else
            yield fd if is_present(self.identity) else None
        finally:
            os.close(fd)

    def _reap(self, fd: int) -> None:
        try:
            result = os.waitid(os.P_PIDFD, fd, os.WEXITED | os.WNOHANG)
        except ChildProcessError:  # not our child, or collected by another waiter a moment ago
            return
        if result is not None:
            exited = result.si_code == os.CLD_EXITED
            self._exit_code = result.si_status if exited else -result.si_status


def find(pid_file: Path) -> Detached | None:
    """The program that wrote this pid file, if it still lives."""
    identity = read_identity(pid_file)
    return Detached(identity) if identity is not None and is_alive(identity) else None


async def start_detached(
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log_file: Path,
    pid_file: Path,
    lock_fd: int | None = None,
    umask: int = 0o077,
) -> Detached:
    """Returns when the program runs, with exactly this environment; its output is appended to `log_file`.

    `lock_fd` stays open in the program, so that a flock on it lasts as long as the program. If we are cancelled on
    the way, nothing keeps running.
    """
    program = find_program(command[0], env=env)
    error_read, error_write = os.pipe()
    try:
        try:
            child = _spawn(
                [str(error_write), str(pid_file), str(program), *command[1:]],
                env=env,
                cwd=cwd,
                log_file=log_file,
                umask=umask,
                pass_fds=(error_write,) if lock_fd is None else (error_write, lock_fd),
            )
        except OSError as error:
            raise LaunchFailed(f"{program} could not be started: {error}") from error
        finally:
            os.close(error_write)
        try:
            await _until_running(error_read, program)
        except BaseException:
            await _undo(child, pid_file)
            raise
    finally:
        os.close(error_read)
    return child


def find_program(name: str, *, env: Mapping[str, str]) -> Path:
    """The file that this name means for a program with that environment."""
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise LaunchFailed(f"{name} is not there or may not be executed")
    return Path(found).absolute()


def _spawn(
    arguments: list[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log_file: Path,
    umask: int,
    pass_fds: tuple[int, ...],
) -> Detached:
    log_fd = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.fchmod(log_fd, 0o600)
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", launch.__file__, *arguments],
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=log_fd,
            stderr=log_fd,
            pass_fds=pass_fds,
            start_new_session=True,
            umask=umask,
        )
    finally:
        os.close(log_fd)
    # Popen must neither collect the exit code nor complain that the program still runs: Detached watches it
    child.returncode = 0
    identity = identity_of(child.pid)  # always there: nobody else collects our child
    if identity is None:
        raise LaunchFailed("the new process vanished")
    return Detached(identity)


async def _until_running(error_fd: int, program: Path) -> None:
    try:
        await asyncio.wait_for(_until_readable(error_fd), _LAUNCH_TIMEOUT_S)
    except TimeoutError as error:
        raise LaunchFailed(f"{program} did not start within {_LAUNCH_TIMEOUT_S:.0f} seconds") from error
    said = os.read(error_fd, 4096)  # empty: the descriptor was closed by exec
    if said:
        raise LaunchFailed(f"{program} could not be started: {said.decode(errors='replace')}")


async def _undo(child: Detached, pid_file: Path) -> None:
    child.signal(signal.SIGKILL)
    # shielded: it ends within a millisecond, and must be collected even if we are cancelled a second time
    await asyncio.shield(child.wait())
    pid_file.unlink(missing_ok=True)


async def _until_readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def tell() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(fd, tell)
    try:
        await readable
    finally:
        loop.remove_reader(fd)
