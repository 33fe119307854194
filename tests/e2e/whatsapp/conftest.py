"""One system with the simulated WhatsApp for all tests here; each test has phones and sessions of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from support.system import System

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    system = System(
        tmp_path_factory.mktemp("whatsapp"),
        SIMULATOR_PROXIES=12,
        PROXY_TIMEOUT_MS=2000,
        PROXY_BAD_AFTER=100,
        WEBHOOK_ALLOW_PRIVATE="127.0.0.0/8",
        WORKER_ENV="RECONNECT_BASE_MS=200 RECONNECT_MAX_MS=1000 ACK_TIMEOUT_MS=5000",
    )
    with system:
        yield system


@pytest.fixture
def system(shared_system: System) -> Iterator[System]:
    yield shared_system
    shared_system.clear()


@pytest.fixture
def phone() -> str:
    return f"97250{next(_numbers):07}"


@pytest.fixture
def other_phone() -> str:
    return f"97252{next(_numbers):07}"
