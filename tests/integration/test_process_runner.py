"""Workers as local processes: the runner contract, and what only processes have to show."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import wa_orchestrator
from contracts.runner_contract import PROXY_URL, SECRET, NewRunner, NewSpec, RunnerContract, Steer
from support import run_workers
from support.intake import Intake
from support.leftovers import end_all_below, environment_of, open_files
from support.waiting import wait_until
from wa_orchestrator.errors import RunnerUnavailable
from wa_orchestrator.processes.identity import identity_of
from wa_orchestrator.runners.port import Runner, WorkerExit, WorkerLocked
from wa_orchestrator.runners.process import ProcessRunner

_SOURCES = str(Path(str(wa_orchestrator.__file__)).parents[1])


@contextmanager
def other_control_plane(folder: Path, url: str, *session_ids: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that runs workers; killed at the end, its workers are not."""
    command = [sys.executable, run_workers.__file__, str(folder), url, *session_ids]
    with subprocess.Popen(command, env={"PYTHONPATH": _SOURCES}, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def foreign_process(env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "60"], env=env, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def handles(process: subprocess.Popen[str], count: int) -> list[str]:
    assert process.stdout is not None
    return [(await asyncio.to_thread(process.stdout.readline)).strip() for _ in range(count)]


def pid_of(handle: str) -> int:
    return int(handle.removeprefix("pid "))


def pids_below(sessions_path: Path) -> set[int]:
    """Every process of the machine that works in these session folders."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"SESSIONS_DIR={sessions_path}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
async def _no_leftovers(tmp_path: Path) -> AsyncIterator[None]:
    yield
    await end_all_below(tmp_path)
    assert pids_below(tmp_path / "sessions") == set()


class TestProcessRunner(RunnerContract):
    @pytest.fixture
    def sessions_path(self, tmp_path: Path) -> Path:
        return tmp_path / "sessions"

    @pytest.fixture
    def new_runner(self, tmp_path: Path) -> NewRunner:
        return lambda: run_workers.process_runner(tmp_path)

    # ------------------------------------------------------------------------------------- what a worker gets
    async def test_the_environment_is_the_contract_and_nothing_else(
        self, runner: Runner, spec: NewSpec, intake: Intake, sessions_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("API_KEY", "must-not-leak")
        worker = await runner.start(spec(extra_env={"PING_INTERVAL_MS": "0"}, enable_keep_alive=False))
        assert environment_of(pid_of(worker.handle)) == {
            "PATH": "/usr/bin:/bin",
            "SESSION_ID": "worker_1",
            "PROXY_URL": PROXY_URL,
            "WEBHOOK_URL": intake.url,
            "WEBHOOK_SECRET": SECRET,
            "ENABLE_KEEP_ALIVE": "false",
            "SESSIONS_DIR": str(sessions_path),
            "PING_INTERVAL_MS": "0",
        }

    async def test_folders_logs_and_records_are_private_and_hold_no_secret(
        self, runner: Runner, spec: NewSpec, intake: Intake, tmp_path: Path
    ) -> None:
        worker = await runner.start(spec())
        await wait_until(intake.types)
        modes = {path: (tmp_path / path).stat().st_mode & 0o777 for path in (
            "sessions/worker_1", "sessions/worker_1/.lock", "sessions/worker_1/tiny-events.json",
            "run", "run/worker_1.json", "run/worker_1.pid", "logs", "logs/worker_1.log")}  # fmt: skip
        assert {path for path, mode in modes.items() if mode & 0o077} == set()
        assert modes["sessions/worker_1"] == 0o700
        assert modes["logs/worker_1.log"] == 0o600
        assert json.loads((tmp_path / "run/worker_1.json").read_text()) == {
            "session_id": "worker_1",
            "run_order": 1,
            "proxy_id": "proxy_a",
            "started_at": worker.started_at,
        }
        command = Path(f"/proc/{pid_of(worker.handle)}/cmdline").read_text()
        assert SECRET not in command
        assert "proxy-password" not in command

    async def test_it_has_its_own_process_group(self, runner: Runner, spec: NewSpec) -> None:
        pid = pid_of((await runner.start(spec())).handle)
        assert os.getpgid(pid) == pid

    async def test_an_open_folder_is_closed_to_others(self, runner: Runner, spec: NewSpec, sessions_path: Path) -> None:
        (sessions_path / "worker_1").mkdir(mode=0o755)
        await runner.start(spec())
        assert (sessions_path / "worker_1").stat().st_mode & 0o777 == 0o700

    async def test_logs_are_turned_over_at_start_and_while_running(
        self, runner: Runner, spec: NewSpec, intake: Intake, tmp_path: Path
    ) -> None:
        log_file, older = tmp_path / "logs/worker_1.log", tmp_path / "logs/worker_1.log.1"
        log_file.write_text("x" * 1001)
        await runner.start(spec())
        await wait_until(intake.types)
        assert older.read_text() == "x" * 1001
        assert log_file.read_text() == "worker of worker_1 runs\n"
        with log_file.open("a") as file:
            file.write("y" * 1001)
        await asyncio.gather(runner.list_running(), runner.list_running())
        assert older.read_text().endswith("y")
        assert log_file.stat().st_size == 0

    # --------------------------------------------------------------------------------------- when it cannot
    @pytest.mark.parametrize("program", ["no-such-program", "/etc/passwd", "/"])
    async def test_a_program_that_cannot_run_is_told_and_leaves_nothing(
        self, tmp_path: Path, spec: NewSpec, program: str
    ) -> None:
        runner = run_workers.process_runner(tmp_path, command=[program])
        with pytest.raises(RunnerUnavailable, match=program):
            await runner.start(spec())
        assert await runner.list_running() == []
        assert list((tmp_path / "run").iterdir()) == []

    async def test_a_worker_that_ends_at_once_is_told(self, tmp_path: Path, spec: NewSpec) -> None:
        runner = run_workers.process_runner(tmp_path, command=["sh", "-c", "exit 9"])
        told: list[WorkerExit] = []
        runner.on_exit(told.append)
        await runner.start(spec())
        await wait_until(lambda: told)
        assert told[0].exit_code == 9
        assert list((tmp_path / "run").iterdir()) == []

    async def test_a_cancelled_start_leaves_nothing(self, runner: Runner, spec: NewSpec, tmp_path: Path) -> None:
        starting = asyncio.create_task(runner.start(spec()))
        await asyncio.sleep(0.003)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert list((tmp_path / "run").iterdir()) == []
        assert pids_below(tmp_path / "sessions") == set()
        await runner.start(spec())

    async def test_a_cancelled_stop_keeps_the_worker_watched(
        self, runner: Runner, spec: NewSpec, intake: Intake, steer: Steer, exits: list[WorkerExit]
    ) -> None:
        steer("worker_1", "deaf")
        await runner.start(spec())
        await wait_until(intake.types)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(runner.stop("worker_1"), 0.1)
        steer("worker_1", "crash")
        await wait_until(lambda: exits)
        assert exits[0].exit_code == 3

    async def test_a_start_during_close_is_stopped_too_and_later_ones_are_refused(
        self, runner: Runner, spec: NewSpec, tmp_path: Path
    ) -> None:
        starting = asyncio.create_task(runner.start(spec()))
        await asyncio.sleep(0.003)
        await runner.close(stop_workers=True)
        await starting
        assert pids_below(tmp_path / "sessions") == set()
        with pytest.raises(RunnerUnavailable):
            await runner.start(spec("worker_2"))

    async def test_no_descriptor_is_left_open(self, new_runner: NewRunner, spec: NewSpec) -> None:
        runner = new_runner()
        await runner.open()
        before = open_files()
        for _ in range(2):
            await asyncio.gather(*(runner.start(spec(f"worker_{n}")) for n in range(3)))
            await asyncio.gather(*(runner.stop(f"worker_{n}") for n in range(3)))
        assert {k: v for k, v in open_files().items() if "socket" not in v} == {
            k: v for k, v in before.items() if "socket" not in v
        }
        await runner.start(spec())
        await runner.close(stop_workers=False)
        # whoever started us may have left us a lock of its own
        made = [target for fd, target in open_files().items() if before.get(fd) != target]
        assert not [target for target in made if "pidfd" in target or ".lock" in target]

    # ------------------------------------------------------------------------------- kill -9 of the control plane
    async def test_workers_survive_a_killed_control_plane_and_are_adopted(
        self, tmp_path: Path, new_runner: NewRunner, spec: NewSpec, intake: Intake, steer: Steer
    ) -> None:
        with other_control_plane(tmp_path, intake.url, "worker_1", "worker_2") as other:
            started = await handles(other, 2)
            await wait_until(lambda: intake.types() == ["QR_CODE", "QR_CODE"])
        runner = new_runner()
        told: list[WorkerExit] = []
        runner.on_exit(told.append)
        adopted = await runner.open()
        assert [worker.handle for worker in adopted] == started
        assert {worker.run_order for worker in adopted} == {3}
        steer("worker_1", "crash")
        await wait_until(lambda: told)
        assert told == [WorkerExit(session_id="worker_1", run_order=3, exit_code=None)]
        await runner.start(spec("worker_1", run_order=4))
        await runner.close(stop_workers=True)
        assert len(told) == 3

    async def test_whenever_it_is_killed_no_unknown_worker_remains(
        self, tmp_path: Path, new_runner: NewRunner, intake: Intake, sessions_path: Path
    ) -> None:
        chance = random.Random(1)
        for _ in range(4):
            with other_control_plane(tmp_path, intake.url, *(f"worker_{n}" for n in range(8))) as other:
                await handles(other, 1)
                await asyncio.sleep(chance.uniform(0.0, 0.12))
            runner = new_runner()
            adopted = {pid_of(worker.handle) for worker in await runner.open()}
            assert adopted
            assert pids_below(sessions_path) == adopted
            await runner.close(stop_workers=True)

    async def test_a_worker_that_is_just_being_born_is_waited_for(
        self, runner: ProcessRunner, tmp_path: Path, spec: NewSpec, intake: Intake
    ) -> None:
        worker = await runner.start(spec())
        await runner.close(stop_workers=False)
        pid_file = tmp_path / "run/worker_1.pid"
        pid_file.rename(tmp_path / "not-yet")
        following = run_workers.process_runner(tmp_path)
        opening = asyncio.create_task(following.open())
        await asyncio.sleep(0.1)
        (tmp_path / "not-yet").rename(pid_file)
        assert await opening == [worker]
        await following.close(stop_workers=True)

    async def test_a_worker_of_another_server_keeps_its_folder(
        self, tmp_path: Path, runner: Runner, spec: NewSpec, intake: Intake, sessions_path: Path
    ) -> None:
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        sessions_path.mkdir(exist_ok=True)
        (elsewhere / "sessions").symlink_to(sessions_path)
        with other_control_plane(elsewhere, intake.url, "worker_1") as other:
            handle = (await handles(other, 1))[0]
        with pytest.raises(WorkerLocked):  # its control plane is dead, the worker is not
            await runner.start(spec())
        assert identity_of(pid_of(handle)) is not None

    # ---------------------------------------------------------------------------------------- foreign processes
    @pytest.mark.parametrize("how", ["recycled pid", "another program", "another session"])
    async def test_a_foreign_process_is_neither_adopted_nor_killed(
        self, tmp_path: Path, new_runner: NewRunner, how: str
    ) -> None:
        session_id = "worker_2" if how == "another session" else "worker_1"
        env: dict[str, str] = {} if how == "another program" else {"SESSION_ID": session_id}
        with foreign_process(env) as foreign:
            _pretend_it_runs(tmp_path / "run", foreign.pid, ticks_off=1 if how == "recycled pid" else 0)
            runner = new_runner()
            told: list[WorkerExit] = []
            runner.on_exit(told.append)
            assert await runner.open() == []
            await runner.stop("worker_1")
            await runner.close(stop_workers=True)
            assert foreign.poll() is None
            assert told == []
            assert list((tmp_path / "run").iterdir()) == []

    async def test_damaged_records_are_cleared_away(self, tmp_path: Path, new_runner: NewRunner) -> None:
        (tmp_path / "run").mkdir()
        (tmp_path / "run/worker_1.json").write_text("{")
        (tmp_path / "run/worker_1.pid").write_text("nonsense")
        assert await new_runner().open() == []
        assert list((tmp_path / "run").iterdir()) == []

    async def test_a_worker_killed_from_outside_is_told(
        self, runner: Runner, spec: NewSpec, exits: list[WorkerExit]
    ) -> None:
        worker = await runner.start(spec())
        os.kill(pid_of(worker.handle), signal.SIGKILL)
        await wait_until(lambda: exits)
        assert exits[0].exit_code == -signal.SIGKILL


def _pretend_it_runs(run_path: Path, pid: int, *, ticks_off: int) -> None:
    run_path.mkdir()
    identity = identity_of(pid)
    assert identity is not None
    record: dict[str, Any] = {"session_id": "worker_1", "run_order": 1, "proxy_id": "proxy_a", "started_at": 1}
    (run_path / "worker_1.json").write_text(json.dumps(record))
    (run_path / "worker_1.pid").write_text(f"{pid} {identity.start_ticks - ticks_off} {identity.boot_id}\n")
