"""The filter in front of a real engine: the runner works through it, and everything else ends at it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path, PurePosixPath

import aiohttp
import pytest
from aiodocker import Docker
from aiodocker.exceptions import DockerError
from yarl import URL

from contracts.runner_contract import PROXY_URL, SECRET
from support.docker_engine import TINY_IMAGE, Engine
from support.docker_runners import NewDockerRunner
from support.intake import Intake
from support.waiting import wait_until
from wa_orchestrator.errors import RunnerUnavailable
from wa_orchestrator.runners.docker_filter import DockerFilter
from wa_orchestrator.runners.docker_filter_rules import FilterRules
from wa_orchestrator.runners.port import WorkerExit, WorkerSpec


@pytest.fixture
async def filtered(engine: Engine, sessions_path: Path, tmp_path: Path) -> AsyncIterator[str]:
    rules = FilterRules(image=TINY_IMAGE, network="bridge", host_sessions_path=PurePosixPath(sessions_path))
    service = DockerFilter(engine=engine.host, rules=rules)
    listen = f"unix://{tmp_path}/filter.sock"
    await service.open(listen)
    yield listen
    await service.close()


@pytest.fixture
def bystander(engine: Engine) -> Iterator[str]:
    """A container that is nobody's business."""
    name = f"wa-test-bystander-{secrets.token_hex(4)}"
    engine.docker("run", "-d", "--name", name, "local/debian:12-slim", "sleep", "60")
    yield name
    engine.docker("rm", "-f", name)


@pytest.fixture
async def client(filtered: str) -> AsyncIterator[Docker]:
    async with Docker(url=filtered) as docker:
        yield docker
    await asyncio.sleep(0)


def spec(intake: Intake, session_id: str = "worker_1") -> WorkerSpec:
    return WorkerSpec(
        session_id=session_id, run_order=1, proxy_id="px", proxy_url=PROXY_URL, webhook_url=intake.url,
        webhook_secret=SECRET, extra_env={"PING_INTERVAL_MS": "0", "TINY_RETRY_MS": "20"},
    )  # fmt: skip


async def test_the_runner_does_all_its_work_through_the_filter(
    filtered: str,
    new_docker_runner: NewDockerRunner,
    intake_for_containers: Intake,
    tmp_path: Path,
    sessions_path: Path,
) -> None:
    runner = new_docker_runner(docker_host=filtered)
    told: list[WorkerExit] = []
    runner.on_exit(told.append)
    assert await runner.open() == []
    first = await runner.start(spec(intake_for_containers))
    await wait_until(intake_for_containers.types)
    assert await runner.poll("worker_1") == first
    (sessions_path / "worker_1" / "crash").touch()
    await wait_until(lambda: told, timeout_s=2)  # events come through at once
    kept = tmp_path / "logs" / "worker_1.log"
    await wait_until(lambda: kept.exists() and "worker of worker_1 runs" in kept.read_text())
    second = await runner.start(spec(intake_for_containers))
    following = new_docker_runner(docker_host=filtered)
    assert await following.open() == [second]
    await following.close(stop_workers=False)
    await runner.stop("worker_1")
    assert told[0].exit_code == 3
    await runner.close(stop_workers=True)


async def test_other_containers_cannot_be_seen_stopped_or_removed(
    client: Docker, bystander: str, engine: Engine
) -> None:
    container_id = engine.inspect(bystander)["Id"]
    for name in (bystander, container_id, container_id[:12]):
        container = client.containers.container(name)
        for attempt in (
            container.show, container.start, container.stop, container.kill,
            lambda c=container: c.delete(force=True), lambda c=container: c.log(stdout=True),
        ):  # fmt: skip
            with pytest.raises(DockerError) as refused:
                await attempt()
            assert refused.value.status == 403
    assert engine.inspect(bystander)["State"]["Running"] is True
    with pytest.raises(DockerError, match="label"):
        await client.containers.list()


async def test_a_rule_breaking_container_is_not_made(client: Docker, engine: Engine) -> None:
    with pytest.raises(DockerError, match="refused by the Docker filter"):
        await client.containers.create(
            {"Image": "local/debian:12-slim", "HostConfig": {"Privileged": True, "Binds": ["/:/host"]}},
            name="wa_session_x",
        )
    assert not engine.docker("ps", "-aq", "--filter", "name=wa_session_x")


@pytest.mark.parametrize("host", ["host", "container:redis", "none"])
async def test_a_runner_with_other_rules_than_the_filter_is_refused(
    filtered: str, new_docker_runner: NewDockerRunner, intake_for_containers: Intake, host: str
) -> None:
    runner = new_docker_runner(docker_host=filtered, network=host)
    await runner.open()
    with pytest.raises(RunnerUnavailable, match=r"HostConfig\.NetworkMode is not as a worker has it"):
        await runner.start(spec(intake_for_containers))
    await runner.close(stop_workers=True)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/images/json"),
        ("POST", "/containers/BYSTANDER/exec"),
        ("GET", "/v1.41/containers/BYSTANDER/json?size=1"),
        ("GET", "/containers/json?filters={%22label%22:[%22wa-orchestrator.installation=x%22]}&filters={}"),
        ("GET", "/containers/wa_session_x%2f..%2fBYSTANDER/json"),
        ("POST", "/containers/BYSTANDER/kill?signal=SIGTERM"),
    ],
)
async def test_raw_requests_are_refused(filtered: str, bystander: str, method: str, path: str) -> None:
    url = URL(f"http://docker{path.replace('BYSTANDER', bystander)}", encoded=True)
    connector = aiohttp.UnixConnector(filtered.removeprefix("unix://"))
    async with aiohttp.ClientSession(connector=connector) as session, session.request(method, url) as answer:
        assert answer.status == 403
        assert (await answer.json())["message"].startswith("refused by the Docker filter: ")


async def test_an_engine_that_is_away_is_told(tmp_path: Path, new_docker_runner: NewDockerRunner) -> None:
    rules = FilterRules(image=TINY_IMAGE, network="bridge", host_sessions_path=PurePosixPath("/x"))
    service = DockerFilter(engine=f"unix://{tmp_path}/nothing.sock", rules=rules)
    await service.open(f"unix://{tmp_path}/filter.sock")
    runner = new_docker_runner(docker_host=f"unix://{tmp_path}/filter.sock")
    with pytest.raises(RunnerUnavailable, match="does not answer"):
        await runner.open()
    await runner.close(stop_workers=False)
    await service.close()
