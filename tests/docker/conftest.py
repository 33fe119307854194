"""One Docker engine for all tests here; where there is none they are skipped, and that is said loudly."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from contracts.runner_contract import SECRET
from support.docker_engine import TINY_IMAGE, Engine, NoEngine, start_engine
from support.docker_runners import NewDockerRunner
from support.intake import Intake
from wa_orchestrator.runners.docker import DockerRunner
from wa_orchestrator.runners.docker_container import INSTALLATION, ContainerRules

_HERE = Path(__file__).parent
_why_not: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.docker)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for why in _why_not:
        terminalreporter.section("THE DOCKER TESTS DID NOT RUN", sep="!", red=True)
        terminalreporter.line(why)


@pytest.fixture(scope="session")
def show(request: pytest.FixtureRequest) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Lets output through: what takes minutes shows that it goes on."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    uncaptured: Callable[[], contextlib.AbstractContextManager[None]] = capture.global_and_fixture_disabled
    return uncaptured


@pytest.fixture(scope="session")
def engine(show: Callable[[], contextlib.AbstractContextManager[None]]) -> Iterator[Engine]:
    try:
        engine = start_engine(show)
    except NoEngine as why:
        _why_not.append(str(why))
        pytest.skip(f"no Docker engine: {why}")
    yield engine
    if engine.private:
        engine.stop()


@pytest.fixture(scope="session")
def tiny_image(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> None:
    engine.build_tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def timed(show: Callable[[], contextlib.AbstractContextManager[None]]) -> Callable[[str], object]:
    """`with timed("what"):` prints how long it took."""

    @contextlib.contextmanager
    def block(what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        with show():
            print(f"\n  {what}: {time.monotonic() - began:.1f} s", flush=True)

    return block


@pytest.fixture
def installation(engine: Engine) -> Iterator[str]:
    name = f"test-{secrets.token_hex(4)}"
    yield name
    engine.remove_containers(f"{INSTALLATION}={name}")


@pytest.fixture
def sessions_path(tmp_path: Path) -> Path:
    # pytest's folders are root's alone; a container is handed the session's folder only, so that does not matter
    return tmp_path / "sessions"


@pytest.fixture
def new_docker_runner(
    engine: Engine, tiny_image: None, installation: str, sessions_path: Path, tmp_path: Path
) -> NewDockerRunner:
    def make(**changed: object) -> DockerRunner:
        rules = ContainerRules(
            installation=installation,
            image=TINY_IMAGE,
            network="bridge",
            host_sessions_path=PurePosixPath(sessions_path),
            user="1000:1000" if os.geteuid() == 0 else f"{os.geteuid()}:{os.getegid()}",
            memory_mb=64,
            cpus=0.5,
            pids=32,
            log_bytes=1 << 20,
        )
        host = str(changed.pop("docker_host", engine.host))
        return DockerRunner(
            docker_host=host,
            rules=replace(rules, **changed),  # type: ignore[arg-type]
            sessions_path=sessions_path,
            logs_path=tmp_path / "logs",
        )

    return make


@pytest.fixture
async def intake_for_containers(engine: Engine) -> AsyncIterator[Intake]:
    """At an address that containers on the default bridge can reach."""
    gateway = engine.docker("network", "inspect", "bridge", "-f", "{{(index .IPAM.Config 0).Gateway}}")
    async with Intake(SECRET, host=gateway) as intake:
        yield intake
