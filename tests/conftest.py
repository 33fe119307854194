"""What all tests share: real store servers, a clock that only moves when told, a wait without sleeping blindly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis

from support.control_plane import TINY_WORKER, ControlPlane, control_plane
from support.servers import StoreServer, running_server, server_binary
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.store import Store

_KINDS = ("valkey", "redis")


@pytest.fixture(scope="session", params=_KINDS)
def any_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """Each kind of server in turn: what uses this runs on both."""
    kind: str = request.param
    if not server_binary(kind):
        pytest.skip("redis-server is not installed here (Debian: apt-get install redis-server)")
    with running_server(kind, tmp_path_factory.mktemp(kind)) as server:
        yield server


@pytest.fixture(scope="session")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with running_server("valkey", tmp_path_factory.mktemp("valkey")) as server:
        yield server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def _empty(server: StoreServer) -> None:
    with redis.Redis(port=server.port) as client:
        client.flushall()


@pytest.fixture
async def store(any_server: StoreServer, clock: ManualClock) -> AsyncIterator[Store]:
    """An empty store, on Valkey and on Redis."""
    _empty(any_server)
    opened = Store(any_server.url, clock)
    yield opened
    await opened.close()


@pytest.fixture
async def plane(valkey: StoreServer, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """A whole control plane on an empty store; its workers say nothing by themselves."""
    _empty(valkey)
    async with control_plane(tmp_path / "data", REDIS_URL=valkey.url) as running:
        yield running


@pytest.fixture
async def tiny_plane(valkey: StoreServer, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """The same with tiny workers that speak the protocol."""
    _empty(valkey)
    async with control_plane(tmp_path / "data", REDIS_URL=valkey.url, WORKER_COMMAND=TINY_WORKER) as running:
        yield running


@pytest.fixture
async def valkey_store(valkey: StoreServer, clock: ManualClock) -> AsyncIterator[Store]:
    """An empty store, on Valkey only: for tests that are about something else."""
    _empty(valkey)
    opened = Store(valkey.url, clock)
    yield opened
    await opened.close()
