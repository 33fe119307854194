"""Workers as containers: the runner contract, and what only containers have to show."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from contracts.runner_contract import NewRunner, NewSpec, RunnerContract, Steer
from support.docker_engine import TINY_IMAGE, Engine
from support.docker_runners import NewDockerRunner
from support.intake import Intake
from support.waiting import wait_until
from wa_orchestrator.errors import RunnerUnavailable
from wa_orchestrator.runners.port import Runner, WorkerExit


class TestDockerRunner(RunnerContract):
    @pytest.fixture
    def sessions_path(self, tmp_path: Path) -> Path:
        return tmp_path / "sessions"

    @pytest.fixture
    def new_runner(self, new_docker_runner: NewDockerRunner) -> NewRunner:
        return new_docker_runner

    @pytest.fixture
    async def intake(self, intake_for_containers: Intake) -> Intake:
        return intake_for_containers

    # --------------------------------------------------------------- where containers differ from processes
    async def test_workers_that_ended_meanwhile_are_not_adopted(
        self, runner: Runner, new_runner: NewRunner, spec: NewSpec, intake: Intake, steer: Steer, sessions_path: Path
    ) -> None:
        """The engine has restarted it, so it runs: it is adopted, once."""
        first = await runner.start(spec())
        await wait_until(intake.types)
        await runner.close(stop_workers=False)
        steer("worker_1", "crash")
        await wait_until(lambda: intake.types() == ["QR_CODE", "QR_CODE"])
        following = new_runner()
        (adopted,) = await following.open()
        assert adopted.handle == first.handle
        assert adopted.started_at > first.started_at
        await following.close(stop_workers=True)

    # -------------------------------------------------------------------------------------- what a worker gets
    async def test_inspect_shows_limits_and_rights(
        self, runner: Runner, spec: NewSpec, engine: Engine, installation: str, sessions_path: Path
    ) -> None:
        worker = await runner.start(spec(run_order=7))
        shown = engine.inspect("wa_session_worker_1")
        host = shown["HostConfig"]
        assert shown["Id"].startswith(worker.handle)
        assert shown["Config"]["User"] == "1000:1000"
        assert (host["Memory"], host["NanoCpus"], host["PidsLimit"]) == (64 << 20, 500_000_000, 32)
        assert host["CapDrop"] == ["ALL"]
        assert host["SecurityOpt"] == ["no-new-privileges:true"]
        assert host["ReadonlyRootfs"] is True
        assert host["Init"] is True
        assert host["Privileged"] is False
        assert host["RestartPolicy"]["Name"] == "unless-stopped"
        assert host["Binds"] == [f"{sessions_path}/worker_1:/app/sessions/worker_1"]
        assert host["LogConfig"] == {"Type": "json-file", "Config": {"max-size": str(1 << 20), "max-file": "2"}}
        labels = {name: value for name, value in shown["Config"]["Labels"].items() if name.startswith("wa-")}
        assert labels == {
            "wa-orchestrator.installation": installation,
            "wa-orchestrator.session": "worker_1",
            "wa-orchestrator.run-order": "7",
            "wa-orchestrator.proxy": "proxy_a",
        }

    async def test_inside_only_the_session_folder_and_tmp_are_writable(
        self, runner: Runner, spec: NewSpec, engine: Engine
    ) -> None:
        await runner.start(spec())
        tried = engine.docker(
            "exec", "wa_session_worker_1", "sh", "-c",
            "id -u; for f in /x /app/x /app/sessions/x /tmp/x /app/sessions/worker_1/x; do"
            " (: >$f) 2>/dev/null && echo $f; done; grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/self/status",
        )  # fmt: skip
        assert tried.split() == [
            "1000", "/tmp/x", "/app/sessions/worker_1/x", "CapEff:", "0000000000000000", "NoNewPrivs:", "1",
            "Seccomp:", "2",
        ]  # fmt: skip

    # -------------------------------------------------------------------------------------- death and restart
    async def test_a_killed_container_is_told_within_a_second(
        self, runner: Runner, spec: NewSpec, engine: Engine, exits: list[WorkerExit]
    ) -> None:
        worker = await runner.start(spec(run_order=2))
        await asyncio.to_thread(engine.docker, "kill", worker.handle)
        began = time.monotonic()
        await wait_until(lambda: exits, timeout_s=1)
        assert time.monotonic() - began < 1
        assert exits == [WorkerExit(session_id="worker_1", run_order=2, exit_code=137)]
        assert await runner.list_running() == []

    async def test_the_engines_own_restart_is_called_off_when_we_watch(
        self, runner: Runner, spec: NewSpec, engine: Engine, intake: Intake, steer: Steer, exits: list[WorkerExit]
    ) -> None:
        first = await runner.start(spec(run_order=1))
        await wait_until(intake.types)
        steer("worker_1", "crash")
        await wait_until(lambda: exits, timeout_s=1)
        second = await runner.start(spec(run_order=1))
        assert second.handle != first.handle
        await wait_until(lambda: len(intake.types()) == 2)
        await asyncio.sleep(0.5)  # the engine would have restarted it by now
        names = engine.docker("ps", "-a", "--filter", "name=wa_session_worker_1", "--format", "{{.ID}}").split()
        assert names == [second.handle]
        assert len(exits) == 1

    async def test_a_dead_container_stays_until_it_is_replaced_and_its_last_words_are_kept(
        self, runner: Runner, spec: NewSpec, engine: Engine, exits: list[WorkerExit], tmp_path: Path
    ) -> None:
        await runner.start(spec(extra_env={"PROXY_URL": "http://nope"}))
        await wait_until(lambda: exits)
        kept = tmp_path / "logs" / "worker_1.log"
        await wait_until(lambda: kept.exists() and "PROXY_URL must start with socks5h://" in kept.read_text())
        await wait_until(lambda: engine.inspect("wa_session_worker_1")["State"]["Status"] == "exited")
        await runner.stop("worker_1")
        assert not engine.docker("ps", "-aq", "--filter", "name=wa_session_worker_1")

    async def test_a_second_container_on_the_same_folder_ends_with_75(
        self, runner: Runner, spec: NewSpec, engine: Engine, sessions_path: Path, intake: Intake
    ) -> None:
        await runner.start(spec())
        await wait_until(intake.types)
        second = engine.docker(
            "run",
            "-d",
            "-e",
            "SESSION_ID=worker_1",
            "-v",
            f"{sessions_path}/worker_1:/app/sessions/worker_1",
            TINY_IMAGE,
        )
        try:
            code = await asyncio.to_thread(engine.docker, "wait", second)
            assert code == "75"
        finally:
            engine.docker("rm", "-f", second)

    async def test_a_worker_survives_a_restart_of_the_engine(
        self, runner: Runner, spec: NewSpec, engine: Engine, intake: Intake, exits: list[WorkerExit]
    ) -> None:
        if not engine.private:
            pytest.skip("the engine of DOCKER_HOST is not ours to restart")
        first = await runner.start(spec())
        await wait_until(intake.types)
        await asyncio.to_thread(engine.stop)
        with pytest.raises(RunnerUnavailable, match="does not answer"):
            await runner.poll("worker_1")
        with pytest.raises(RunnerUnavailable):
            await runner.start(spec("worker_2"))
        await asyncio.to_thread(engine.restart)
        assert await runner.poll("worker_1") == first
        assert exits == []
        # and the events are followed again
        await asyncio.sleep(0.3)
        await asyncio.to_thread(engine.docker, "kill", first.handle)
        await wait_until(lambda: exits, timeout_s=6)

    # ---------------------------------------------------------------------------------------- when it cannot
    async def test_a_missing_image_is_told(self, new_docker_runner: NewDockerRunner, spec: NewSpec) -> None:
        runner = new_docker_runner(image="wa-no-such-image:1")
        await runner.open()
        with pytest.raises(RunnerUnavailable, match=r"wa-no-such-image:1 is not on this machine. Build it"):
            await runner.start(spec())
        await runner.close(stop_workers=True)

    async def test_a_missing_network_is_told_and_leaves_nothing(
        self, new_docker_runner: NewDockerRunner, spec: NewSpec, engine: Engine
    ) -> None:
        runner = new_docker_runner(network="wa_no_such_network")
        await runner.open()
        with pytest.raises(RunnerUnavailable, match="no Docker network wa_no_such_network"):
            await runner.start(spec())
        assert not engine.docker("ps", "-aq", "--filter", "name=wa_session_worker_1")
        await runner.close(stop_workers=True)

    async def test_an_engine_that_is_not_there_is_told(
        self, tmp_path: Path, new_docker_runner: NewDockerRunner
    ) -> None:
        runner = new_docker_runner(docker_host=f"unix://{tmp_path}/nothing.sock")
        with pytest.raises(RunnerUnavailable, match="does not answer"):
            await runner.open()
        await runner.close(stop_workers=False)

    async def test_containers_of_other_installations_are_never_touched(
        self, runner: Runner, new_docker_runner: NewDockerRunner, spec: NewSpec, installation: str
    ) -> None:
        worker = await runner.start(spec())
        other = new_docker_runner(installation=f"{installation}-other")
        assert await other.open() == []
        with pytest.raises(RunnerUnavailable, match="another installation"):
            await other.start(spec())
        await other.stop("worker_1")
        await other.close(stop_workers=True)
        assert await runner.poll("worker_1") == worker

    async def test_two_control_planes_of_one_installation_see_the_same_workers(
        self, runner: Runner, new_runner: NewRunner, spec: NewSpec, exits: list[WorkerExit]
    ) -> None:
        other = new_runner()
        await other.open()
        worker = await runner.start(spec())
        await wait_until(other.list_running)
        assert await other.start(spec()) == worker
        await other.stop("worker_1")
        await wait_until(lambda: exits)
        assert await runner.list_running() == []
        await other.close(stop_workers=False)

    async def test_twelve_start_side_by_side(self, runner: Runner, spec: NewSpec) -> None:
        await asyncio.gather(*(runner.start(spec(f"worker_{n}")) for n in range(12)))
        assert len(await runner.list_running()) == 12
        await runner.close(stop_workers=True)
