"""What every runner must show. A subclass gives the fixtures `new_runner` and `sessions_path`, on an empty place."""

from __future__ import annotations

import asyncio
import fcntl
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from support.intake import Intake
from support.waiting import wait_until
from wa_orchestrator.errors import InvalidSessionId
from wa_orchestrator.runners.port import Runner, WorkerExit, WorkerLocked, WorkerSpec

SECRET = "tiny-secret"
PROXY_URL = "socks5h://user:proxy-password@127.0.0.1:1080"

NewRunner = Callable[[], Runner]
NewSpec = Callable[..., WorkerSpec]
Steer = Callable[..., None]


class RunnerContract:
    @pytest.fixture
    def new_runner(self) -> NewRunner:
        """Makes the runner of one more control plane, all on the same folders; not opened yet."""
        raise NotImplementedError

    @pytest.fixture
    def sessions_path(self) -> Path:
        raise NotImplementedError

    @pytest.fixture
    async def intake(self) -> AsyncIterator[Intake]:
        async with Intake(SECRET) as intake:
            yield intake

    @pytest.fixture
    def spec(self, intake: Intake) -> NewSpec:
        def make(session_id: str = "worker_1", **values: Any) -> WorkerSpec:
            values.setdefault("run_order", 1)
            values.setdefault("extra_env", {"PING_INTERVAL_MS": "0", "TINY_RETRY_MS": "20"})
            return WorkerSpec(
                session_id=session_id,
                proxy_id="proxy_a",
                proxy_url=PROXY_URL,
                webhook_url=intake.url,
                webhook_secret=SECRET,
                **values,
            )

        return make

    @pytest.fixture
    async def runner(self, new_runner: NewRunner) -> AsyncIterator[Runner]:
        runner = new_runner()
        assert await runner.open() == []
        yield runner
        for worker in await runner.list_running():
            await runner.stop(worker.session_id, timeout_s=1)
        await runner.close(stop_workers=True)

    @pytest.fixture
    def exits(self, runner: Runner) -> list[WorkerExit]:
        told: list[WorkerExit] = []
        runner.on_exit(told.append)
        return told

    @pytest.fixture
    def steer(self, sessions_path: Path) -> Steer:
        """Puts a control file into a tiny worker's folder."""

        def put(session_id: str, name: str, text: str = "") -> None:
            folder = sessions_path / session_id
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{name}.new").write_text(text)
            (folder / f"{name}.new").rename(folder / name)

        return put

    # -------------------------------------------------------------------------------------------- start
    async def test_a_started_worker_runs_and_reports(self, runner: Runner, spec: NewSpec, intake: Intake) -> None:
        before = time.time() * 1000
        worker = await runner.start(spec(run_order=7))
        assert (worker.session_id, worker.run_order, worker.proxy_id) == ("worker_1", 7, "proxy_a")
        assert before - 1 <= worker.started_at <= time.time() * 1000
        assert await runner.poll("worker_1") == worker
        assert await runner.list_running() == [worker]
        await wait_until(lambda: intake.types() == ["QR_CODE"])
        assert intake.events[0]["sessionId"] == "worker_1"

    async def test_a_second_start_returns_the_first_worker(self, runner: Runner, spec: NewSpec) -> None:
        first = await runner.start(spec(run_order=1))
        assert await runner.start(spec(run_order=2)) == first

    async def test_parallel_starts_of_one_session_make_one_worker(self, runner: Runner, spec: NewSpec) -> None:
        workers = await asyncio.gather(*(runner.start(spec()) for _ in range(5)))
        assert len(set(workers)) == 1
        assert await runner.list_running() == workers[:1]

    async def test_sessions_run_side_by_side(self, runner: Runner, spec: NewSpec) -> None:
        await asyncio.gather(*(runner.start(spec(f"worker_{n}")) for n in range(3)))
        assert {w.session_id for w in await runner.list_running()} == {"worker_0", "worker_1", "worker_2"}

    async def test_a_folder_in_use_is_refused(self, runner: Runner, spec: NewSpec, sessions_path: Path) -> None:
        (sessions_path / "worker_1").mkdir(parents=True)
        with (sessions_path / "worker_1" / ".lock").open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(WorkerLocked, match="worker_1"):
                await runner.start(spec())
        assert await runner.list_running() == []
        await runner.start(spec())

    @pytest.mark.parametrize("odd", ["../x", "a:b", "", "x" * 65])
    async def test_an_odd_session_id_is_refused(self, runner: Runner, spec: NewSpec, odd: str) -> None:
        with pytest.raises(InvalidSessionId):
            await runner.start(spec(odd))

    # --------------------------------------------------------------------------------------------- stop
    async def test_stop_ends_the_worker_and_tells_it(
        self, runner: Runner, spec: NewSpec, intake: Intake, exits: list[WorkerExit]
    ) -> None:
        await runner.start(spec(run_order=4))
        await wait_until(intake.types)
        await runner.stop("worker_1")
        assert await runner.poll("worker_1") is None
        assert await runner.list_running() == []
        assert exits == [WorkerExit(session_id="worker_1", run_order=4, exit_code=0)]

    async def test_stop_may_be_repeated_and_asked_for_unknown_sessions(
        self, runner: Runner, spec: NewSpec, exits: list[WorkerExit]
    ) -> None:
        await runner.start(spec())
        await asyncio.gather(*(runner.stop("worker_1") for _ in range(3)))
        await runner.stop("worker_1")
        await runner.stop("never_heard_of")
        assert len(exits) == 1

    async def test_stop_insists_when_the_worker_does_not_listen(
        self, runner: Runner, spec: NewSpec, intake: Intake, steer: Steer, exits: list[WorkerExit]
    ) -> None:
        steer("worker_1", "deaf")
        await runner.start(spec())
        await wait_until(intake.types)
        began = time.monotonic()
        await runner.stop("worker_1", timeout_s=0.3)
        assert 0.3 <= time.monotonic() - began < 8
        assert await runner.poll("worker_1") is None
        assert len(exits) == 1

    async def test_a_start_and_a_stop_at_once_do_not_interleave(self, runner: Runner, spec: NewSpec) -> None:
        await runner.start(spec(run_order=1))
        _, second = await asyncio.gather(runner.stop("worker_1"), runner.start(spec(run_order=2)))
        assert second.run_order == 2
        assert await runner.list_running() == [second]
        await asyncio.gather(runner.start(spec(run_order=3)), runner.stop("worker_1"))
        assert await runner.list_running() == []

    async def test_a_stopped_session_starts_again_and_goes_on_counting(
        self, runner: Runner, spec: NewSpec, intake: Intake, steer: Steer
    ) -> None:
        await runner.start(spec())
        await wait_until(intake.types)
        steer("worker_1", "connect-as", "972500000001")
        await wait_until(lambda: intake.types() == ["QR_CODE", "CONNECTED"])
        await runner.stop("worker_1")
        await runner.start(spec(run_order=2))
        # by number: a worker stopped right after an answer sends that event once more
        await wait_until(lambda: 3 in {event["seq"] for event in intake.events})
        assert {event["seq"]: event["type"] for event in intake.events} == {
            1: "QR_CODE",
            2: "CONNECTED",
            3: "CONNECTED",
        }
        assert len({event["stream"] for event in intake.events}) == 1

    # --------------------------------------------------------------------------------------------- exit
    async def test_a_crash_is_told_at_once_with_its_code(
        self, runner: Runner, spec: NewSpec, intake: Intake, steer: Steer, exits: list[WorkerExit]
    ) -> None:
        await runner.start(spec(run_order=9))
        await wait_until(intake.types)
        steer("worker_1", "crash")
        await wait_until(lambda: exits, timeout_s=5)
        assert exits == [WorkerExit(session_id="worker_1", run_order=9, exit_code=3)]
        assert await runner.poll("worker_1") is None

    async def test_a_worker_that_cannot_use_its_settings_ends_with_64(
        self, runner: Runner, spec: NewSpec, exits: list[WorkerExit]
    ) -> None:
        await runner.start(spec(extra_env={"PROXY_URL": "http://nope"}))
        await wait_until(lambda: exits)
        assert exits[0].exit_code == 64

    async def test_a_listener_that_fails_does_not_silence_the_others(
        self, runner: Runner, spec: NewSpec, intake: Intake
    ) -> None:
        def fail(_exit: WorkerExit) -> None:
            raise RuntimeError

        heard: list[WorkerExit] = []
        runner.on_exit(fail)
        runner.on_exit(heard.append)
        await runner.start(spec())
        await wait_until(intake.types)
        await runner.stop("worker_1")
        assert len(heard) == 1

    # ------------------------------------------------------------------------------------------ adoption
    async def test_workers_left_running_are_adopted_as_they_are(
        self, runner: Runner, new_runner: NewRunner, spec: NewSpec, intake: Intake
    ) -> None:
        started = await runner.start(spec(run_order=5))
        await wait_until(intake.types)
        await runner.close(stop_workers=False)
        following = new_runner()
        told: list[WorkerExit] = []
        following.on_exit(told.append)
        assert await following.open() == [started]
        assert await following.start(spec(run_order=6)) == started
        await following.stop("worker_1")
        assert [(e.session_id, e.run_order) for e in told] == [("worker_1", 5)]
        assert intake.types() == ["QR_CODE"]  # it was never restarted
        await following.close(stop_workers=True)

    async def test_workers_that_ended_meanwhile_are_not_adopted(
        self, runner: Runner, new_runner: NewRunner, spec: NewSpec, intake: Intake, steer: Steer, sessions_path: Path
    ) -> None:
        await runner.start(spec())
        await wait_until(intake.types)
        await runner.close(stop_workers=False)
        steer("worker_1", "crash")
        await wait_until(lambda: not (sessions_path / "worker_1" / "crash").exists())
        following = new_runner()
        assert await following.open() == []
        worker = await following.start(spec(run_order=2))
        assert worker.run_order == 2
        await following.close(stop_workers=True)

    async def test_events_wait_for_a_control_plane_that_is_away(
        self, runner: Runner, spec: NewSpec, intake: Intake, steer: Steer, sessions_path: Path
    ) -> None:
        intake.answer = 503
        await runner.start(spec())
        kept = sessions_path / "worker_1" / "tiny-events.json"
        await wait_until(kept.exists)
        steer("worker_1", "connect-as", "972500000001")
        await wait_until(lambda: len(json.loads(kept.read_text())["waiting"]) == 2)
        intake.answer = 200
        await wait_until(lambda: intake.types() == ["QR_CODE", "CONNECTED"])

    # --------------------------------------------------------------------------------------------- close
    async def test_close_stops_all_workers_side_by_side(
        self, runner: Runner, spec: NewSpec, intake: Intake, exits: list[WorkerExit]
    ) -> None:
        await asyncio.gather(*(runner.start(spec(f"worker_{n}")) for n in range(3)))
        await wait_until(lambda: len(intake.types()) == 3)
        await runner.close(stop_workers=True)
        assert await runner.list_running() == []
        assert [e.exit_code for e in exits] == [0, 0, 0]
