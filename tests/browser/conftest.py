"""One system with the simulated WhatsApp and one Chromium for all tests here; each test has phones of its own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from support.browser import WIDE, Browser, chromium, running_browser
from support.system import System

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    if chromium() is None:
        pytest.skip("Chromium is not installed here (Debian: apt-get install chromium chromium-driver)")
    system = System(
        tmp_path_factory.mktemp("dashboard"),
        SIMULATOR_PROXIES=8,
        PROXY_TIMEOUT_MS=2000,
        PROXY_BAD_AFTER=100,
        WORKER_ENV="RECONNECT_BASE_MS=200 RECONNECT_MAX_MS=1000 ACK_TIMEOUT_MS=5000",
    )
    with system:
        yield system


@pytest.fixture(scope="session")
def shared_browser(shared_system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with running_browser(tmp_path_factory.mktemp("profile"), shared_system.ready["url"]) as browser:
        yield browser


@pytest.fixture
def system(shared_system: System) -> Iterator[System]:
    yield shared_system
    shared_system.clear()


@pytest.fixture
def stranger(shared_browser: Browser) -> Browser:
    """Nobody has signed in."""
    shared_browser.open("/sign-in")
    shared_browser.forget_everything()
    shared_browser.size(WIDE)
    shared_browser.prefer()
    return shared_browser


@pytest.fixture
def browser(system: System, stranger: Browser) -> Browser:
    """Signed in with the API key; English, light, wide."""
    stranger.sign_in(system.ready["apiKey"])
    stranger.wait_shown("#numbers")
    stranger.complaints()
    return stranger


@pytest.fixture
def phone() -> str:
    return f"97254{next(_numbers):07}"


@pytest.fixture
def other_phone(system: System) -> str:
    """A phone that can be written to."""
    number = f"97258{next(_numbers):07}"
    system.simulator.post("/phones", {"phone": number})
    return number
