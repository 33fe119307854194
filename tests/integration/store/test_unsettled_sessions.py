"""The quick look of the reconciler: who needs attention, without reading everybody."""

from __future__ import annotations

import pytest

from support.registry import PHONE, add_proxies, connect, reserve
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.store import Store, connection

_STARTING_MS = 15_000


async def unsettled(store: Store) -> set[str]:
    found, _ = await store.sessions.unsettled(starting_ms=_STARTING_MS)
    return found


async def runs(store: Store, session_id: str) -> None:
    session = await store.sessions.get(session_id)
    assert session
    await store.sessions.note_worker(session_id, ran_order=session.run_order)


async def test_a_session_is_settled_when_the_ordered_worker_runs(store: Store) -> None:
    await add_proxies(store, 1)
    await reserve(store, session_id="a")
    assert await unsettled(store) == {"a"}, "made, not started yet"
    await runs(store, "a")
    assert await unsettled(store) == set()


@pytest.mark.parametrize("order", ["restart", "stop", "delete"])
async def test_an_order_unsettles_it(store: Store, order: str) -> None:
    await add_proxies(store, 1)
    await reserve(store, session_id="a")
    await runs(store, "a")
    await store.sessions.order("a", order, reason="ORDERED", scan_by=10**15)
    assert await unsettled(store) == {"a"}


async def test_a_stopped_one_is_settled_without_a_worker(store: Store) -> None:
    await add_proxies(store, 1)
    await reserve(store, session_id="a")
    await runs(store, "a")
    await store.sessions.order("a", "stop", reason="STOP_ORDERED")
    await store.sessions.note_worker("a", ran_order=0)
    assert await unsettled(store) == set()


async def test_one_that_waits_for_a_proxy_should_have_no_worker(store: Store) -> None:
    (proxy,) = await add_proxies(store, 1)
    await reserve(store, session_id="a")
    await connect(store, "a", PHONE)
    await runs(store, "a")
    await store.proxies.mark(proxy, ProxyStatus.BAD)
    assert (await store.sessions.move("a", reason="PROXY_FAILED", from_proxy=proxy))["waiting"]
    assert await unsettled(store) == {"a"}, "its worker still runs on the dead proxy"
    await store.sessions.note_worker("a", ran_order=0)
    assert await unsettled(store) == set()


async def test_those_that_are_just_starting_are_counted(store: Store, clock: ManualClock) -> None:
    await add_proxies(store, 1)
    for name in "abc":
        await reserve(store, session_id=name)
    await runs(store, "a")
    await runs(store, "b")
    assert await store.sessions.unsettled(starting_ms=_STARTING_MS) == ({"c"}, 2)
    clock.advance(seconds=15)
    assert await store.sessions.unsettled(starting_ms=_STARTING_MS) == ({"c"}, 0)


async def test_many_are_read_in_parts(valkey_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wa_orchestrator.store.sessions.BATCH", 2)
    monkeypatch.setattr(connection, "BATCH", 2)
    await add_proxies(valkey_store, 2)
    names = {(await reserve(valkey_store)).session_id for _ in range(5)}
    assert await unsettled(valkey_store) == names
    assert {s.session_id for s in await valkey_store.sessions.all()} == names
    assert len(await valkey_store.proxies.all()) == 2


async def test_proxies_are_found_when_their_check_is_due(store: Store, clock: ManualClock) -> None:
    first, second = await add_proxies(store, 2)
    assert set(await store.proxies.due(most=10)) == {first, second}, "new ones are checked at once"
    await store.proxies.mark(first, ProxyStatus.ACTIVE, fields={"nextCheckAt": clock.now_ms() + 30_000})
    assert await store.proxies.due(most=10) == [second]
    clock.advance(seconds=30)
    assert set(await store.proxies.due(most=10)) == {first, second}
    await store.proxies.remove(second, drain=False)
    assert await store.proxies.due(most=10) == [first]


async def test_draining_proxies_are_known_until_they_are_gone(store: Store) -> None:
    first, _ = await add_proxies(store, 2)
    await reserve(store, session_id="a", proxy_id=first)
    await store.proxies.remove(first, drain=True)
    assert await store.proxies.draining() == [first]
    await store.sessions.move("a", reason="DRAIN", from_proxy=first, healthy=True)
    assert await store.proxies.remove(first, drain=True) == []
    assert await store.proxies.draining() == []
