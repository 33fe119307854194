"""One Docker engine for all tests here; where there is none they are skipped, and that is said loudly."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.docker_engine import Engine, NoEngine, start_engine

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
