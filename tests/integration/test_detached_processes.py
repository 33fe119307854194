"""Programs that outlive us: started, found again, watched and stopped, never mixed up with foreign ones."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import uvloop

from support.leftovers import end_all_below, environment_of, open_files
from support.waiting import wait_until
from wa_orchestrator.processes import launch
from wa_orchestrator.processes.detached import Detached, LaunchFailed, find, start_detached
from wa_orchestrator.processes.identity import identity_of, read_identity
from wa_orchestrator.processes.logfiles import last_lines, turn_over, turn_over_in_use

_ENV = {"PATH": "/usr/bin:/bin"}
# says "ready", then ignores TERM
_DEAF = 'trap "" TERM; echo ready; while :; do sleep 1; done'

Start = Callable[..., Coroutine[Any, Any, Detached]]


def _children() -> set[str]:
    """Our children, the ended but not collected ones too."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.fixture(scope="module", autouse=True)
def _warm_uvloop() -> None:
    # its library keeps one pipe for signals from first use to the end of the process: that is no leak of ours
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.sleep(0))


@pytest.fixture(autouse=True)
async def _no_leftovers(tmp_path: Path) -> AsyncIterator[None]:
    before = open_files()
    yield
    await end_all_below(tmp_path)
    leaked = {fd: target for fd, target in open_files().items() if before.get(fd) != target}
    assert not leaked


@pytest.fixture
def start(tmp_path: Path) -> Start:
    async def run(*command: str, env: dict[str, str] = _ENV, **options: Any) -> Detached:
        options.setdefault("pid_file", tmp_path / "program.pid")
        return await start_detached(command, env=env, cwd=tmp_path, log_file=tmp_path / "program.log", **options)

    return run


async def test_the_environment_is_exactly_what_was_given(start: Start) -> None:
    env = {"PATH": "/usr/bin:/bin", "EMPTY": "", "TEXT": "שלום = (a b)\nnext line"}
    process = await start("sleep", "60", env=env)
    assert environment_of(process.pid) == env


async def test_an_empty_environment_stays_empty(start: Start) -> None:
    process = await start("/bin/sleep", "60", env={})
    assert environment_of(process.pid) == {}


async def test_it_has_its_own_session_and_no_input(start: Start) -> None:
    process = await start("sleep", "60")
    assert os.getsid(process.pid) == os.getpgid(process.pid) == process.pid
    assert Path(f"/proc/{process.pid}/fd/0").readlink() == Path("/dev/null")

    def has_only_the_three() -> bool:
        return {fd.name for fd in Path(f"/proc/{process.pid}/fd").iterdir()} == {"0", "1", "2"}

    await wait_until(has_only_the_three)  # its first moment belongs to the loader, which opens libraries


async def test_it_gets_the_usual_signals_back(start: Start) -> None:
    process = await start("sleep", "60")
    status = Path(f"/proc/{process.pid}/status").read_text()
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn")))
    of_the_c_library = 1 << 31 | 1 << 32  # 32 and 33: no program can set them
    assert {name: int(mask, 16) & ~of_the_c_library for name, mask in masks.items()} == {"SigBlk": 0, "SigIgn": 0}


async def test_output_is_appended_to_a_private_log(start: Start, tmp_path: Path) -> None:
    log_file = tmp_path / "program.log"
    log_file.write_text("before\n")
    process = await start("sh", "-c", "echo out; echo err >&2; umask")
    assert await process.wait() == 0
    assert log_file.read_text() == "before\nout\nerr\n0077\n"
    assert log_file.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "program.pid").stat().st_mode & 0o777 == 0o600


async def test_the_program_starts_with_its_pid_file_written(start: Start, tmp_path: Path) -> None:
    process = await start("cat", str(tmp_path / "program.pid"))
    await process.wait()
    assert (tmp_path / "program.log").read_text() == process.identity.as_text()


async def test_it_is_found_again_under_the_same_identity(start: Start, tmp_path: Path) -> None:
    process = await start("sleep", "60")
    found = find(tmp_path / "program.pid")
    assert found is not None
    assert found.identity == process.identity


async def test_an_ended_program_is_not_found(start: Start, tmp_path: Path) -> None:
    process = await start("true")
    await wait_until(lambda: not process.alive())
    assert find(tmp_path / "program.pid") is None  # although nobody has collected it yet
    assert await process.wait() == 0


async def test_exit_codes_are_told_to_every_waiter(start: Start) -> None:
    process = await start("sh", "-c", "sleep 0.1; exit 7")
    assert list(await asyncio.gather(process.wait(), process.wait())) == [7, 7]
    assert await process.wait() == 7
    assert not process.alive()


async def test_death_by_signal_is_told_as_a_negative_number(start: Start) -> None:
    process = await start("sleep", "60")
    assert process.signal(signal.SIGKILL)
    assert await process.wait() == -signal.SIGKILL
    assert not process.signal(signal.SIGTERM)


async def test_a_cancelled_wait_leaves_the_program_alone(start: Start) -> None:
    process = await start("sleep", "60")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(process.wait(), 0.05)
    assert process.alive()


async def test_stop_asks_first(start: Start, tmp_path: Path) -> None:
    process = await start("sh", "-c", 'trap "echo bye; exit 5" TERM; echo ready; while :; do sleep 0.02; done')
    await wait_until(lambda: "ready" in (tmp_path / "program.log").read_text())
    assert await process.stop(5) == 5
    assert "bye" in (tmp_path / "program.log").read_text()


async def test_stop_insists_and_takes_the_whole_group(start: Start, tmp_path: Path) -> None:
    process = await start("sh", "-c", f"sleep 61 & echo $! > {tmp_path}/helper; {_DEAF}")
    await wait_until(lambda: "ready" in (tmp_path / "program.log").read_text())
    helper = identity_of(int((tmp_path / "helper").read_text()))
    assert helper is not None
    assert await process.stop(0.2) == -signal.SIGKILL
    await wait_until(lambda: not Detached(helper).alive())


async def test_stopping_an_ended_program_is_harmless(start: Start) -> None:
    process = await start("true")
    assert await process.wait() == 0
    assert await process.stop(1) == 0


async def test_a_program_that_is_not_there_is_refused_with_its_name(start: Start, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="no-such-program"):
        await start("no-such-program")
    assert not list(tmp_path.glob("*.pid"))


async def test_a_program_that_the_kernel_refuses_is_told_and_leaves_nothing(start: Start, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o700)
    with pytest.raises(LaunchFailed, match="Exec format error"):
        await start(str(broken))
    assert not list(tmp_path.glob("*.pid"))


async def test_a_missing_folder_for_the_pid_file_is_told(start: Start, tmp_path: Path) -> None:
    with pytest.raises(LaunchFailed, match="No such file"):
        await start("true", pid_file=tmp_path / "nowhere" / "program.pid")


async def test_a_cancelled_start_leaves_nothing_running(start: Start, tmp_path: Path) -> None:
    before = _children()
    starting = asyncio.create_task(start("sleep", "60"))
    await asyncio.sleep(0)  # forked, but not yet running
    assert _children() != before
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not list(tmp_path.glob("*.pid"))
    assert _children() == before


async def test_a_lock_lasts_as_long_as_the_program(start: Start, tmp_path: Path) -> None:
    fd = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(fd, fcntl.LOCK_EX)
    process = await start("sleep", "60", lock_fd=fd)
    os.close(fd)
    with (tmp_path / "lock").open() as second:
        with pytest.raises(BlockingIOError):
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        await process.stop(5)
        fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)


async def test_a_recycled_pid_is_neither_found_nor_signalled(start: Start, tmp_path: Path) -> None:
    innocent = await start("sleep", "60")
    earlier = replace(innocent.identity, start_ticks=innocent.identity.start_ticks - 1)
    pid_file = tmp_path / "recycled.pid"
    pid_file.write_text(earlier.as_text())
    assert find(pid_file) is None
    mistaken = Detached(earlier)
    assert not mistaken.signal(signal.SIGKILL)
    assert await mistaken.stop(0.1) is None
    assert innocent.alive()


async def test_a_crash_between_fork_and_bookkeeping_leaves_a_program_that_is_found(tmp_path: Path) -> None:
    pid_file = tmp_path / "orphan.pid"
    # the starter forks and is gone before the new process has done anything
    starter = f"""
import os, subprocess, sys
read, write = os.pipe()
subprocess.Popen([sys.executable, "-I", "-S", {launch.__file__!r}, str(write), {str(pid_file)!r}, "/bin/sleep", "60"],
                 pass_fds=(write,), start_new_session=True, env={{}})
os.kill(os.getpid(), 9)
"""
    ended = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", starter], check=False, timeout=10)
    assert ended.returncode == -signal.SIGKILL
    await wait_until(lambda: find(pid_file))
    found = find(pid_file)
    assert found is not None
    await wait_until(lambda: Path(f"/proc/{found.pid}/comm").read_text() == "sleep\n")
    assert found.identity == read_identity(pid_file)  # exec changed neither pid nor start time
    began = time.monotonic()
    assert await found.stop(60) is None  # not our child: the exit code is not ours to know
    assert time.monotonic() - began < 30


def test_everything_works_on_uvloop_too(tmp_path: Path) -> None:
    async def story() -> int | None:
        options: dict[str, Any] = {"env": _ENV, "cwd": tmp_path, "log_file": tmp_path / "log"}
        with pytest.raises(LaunchFailed):
            await start_detached(["./none"], **options, pid_file=tmp_path / "none.pid")
        process = await start_detached(["sleep", "60"], **options, pid_file=tmp_path / "uv.pid")
        return await process.stop(5)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(story()) == -signal.SIGTERM


async def test_a_log_is_turned_over_while_the_program_writes(start: Start, tmp_path: Path) -> None:
    log_file = tmp_path / "program.log"
    await start("sh", "-c", f"echo first; while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; echo second; sleep 60")
    await wait_until(lambda: log_file.read_text() == "first\n")
    turn_over_in_use(log_file, 100)
    assert log_file.read_text() == "first\n"  # small enough
    turn_over_in_use(log_file, 3)
    (tmp_path / "go").touch()
    await wait_until(lambda: log_file.read_text() == "second\n")
    assert (tmp_path / "program.log.1").read_text() == "first\n"
    assert (tmp_path / "program.log.1").stat().st_mode & 0o777 == 0o600


def test_a_large_log_is_put_aside_before_a_start(tmp_path: Path) -> None:
    log_file = tmp_path / "program.log"
    turn_over(log_file, 3)  # none there yet
    log_file.write_text("one\ntwo\nthree\n")
    assert last_lines(log_file, 2) == ["two", "three"]
    turn_over(log_file, 3)
    assert not log_file.exists()
    assert (tmp_path / "program.log.1").read_text() == "one\ntwo\nthree\n"
    assert last_lines(log_file, 2) == []
