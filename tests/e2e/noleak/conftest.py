"""Namespaces for the tests here, and a loud word where none can be made."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from support.netns import WorkerNetwork, why_no_namespaces, worker_network
from support.noleak import Place, open_place

_numbers = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def namespaces() -> None:
    reason = why_no_namespaces()
    if reason and os.environ.get("REQUIRE_NETNS"):
        pytest.fail(f"THE NO-LEAK PROOF CANNOT RUN HERE, and REQUIRE_NETNS is set: {reason}.")
    if reason:
        pytest.skip(f"THE NO-LEAK PROOF WAS NOT RUN: {reason}. See docs/howto/no-leak-proof.md.")


@pytest.fixture
def network(namespaces: None) -> Iterator[WorkerNetwork]:
    """An empty one: nobody is in it yet."""
    with worker_network(1) as made:
        yield made


@pytest.fixture(scope="module")
def place(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with open_place(tmp_path_factory.mktemp("noleak")) as opened:
        yield opened
        print(f"\nall packets that left the worker's namespace:\n{opened.packets.told()}")


@pytest.fixture
def session(place: Place, phone: str) -> Iterator[str]:
    """Connected, and gone after the test."""
    session_id = place.system.connected(phone)
    place.system.unpaced(session_id)
    yield session_id
    place.system.fault(clear=True)
    place.system.api.call("DELETE", f"/api/sessions/{session_id}?forget=true")


@pytest.fixture
def phone() -> str:
    return f"97250{next(_numbers):07}"


@pytest.fixture
def other_phone(place: Place) -> str:
    number = f"97252{next(_numbers):07}"
    place.system.simulator.post("/phones", {"phone": number})
    return number
