"""Deleting, releasing, ordering: slots come back, repeats are harmless."""

from __future__ import annotations

import pytest

from support.registry import PHONE, add_proxies, assert_sound, connect, reserve
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.session import Status, Wanted
from wa_orchestrator.store import Store, keys


async def test_deleting_three_times_frees_one_slot(store: Store) -> None:
    (proxy,) = await add_proxies(store, 1)
    made = await reserve(store)
    await reserve(store)
    assert await store.sessions.delete(made.session_id, keep_s=60)
    assert not await store.sessions.delete(made.session_id, keep_s=60)
    assert not await store.sessions.delete(made.session_id, keep_s=60)
    found = await store.proxies.get(proxy)
    assert found is not None
    assert len(found.sessions) == 1
    await assert_sound(store)


async def test_an_unknown_session_cannot_be_deleted(store: Store) -> None:
    with pytest.raises(errors.SessionNotFound):
        await store.sessions.delete("nobody", keep_s=60)


async def test_the_binding_survives_deletion_unless_forgotten(store: Store) -> None:
    (proxy,) = await add_proxies(store, 1)
    made = await reserve(store)
    await connect(store, made.session_id, PHONE)
    await store.sessions.delete(made.session_id, keep_s=60)
    assert await store.sessions.bound_proxy(PHONE) == proxy
    made = await reserve(store, phone=PHONE)
    await store.sessions.delete(made.session_id, keep_s=60, forget=True)
    assert await store.sessions.bound_proxy(PHONE) is None
    assert await store.sessions.first_connected_at(PHONE) is None
    assert await store.connection.call("SMEMBERS", keys.PROXY_PHONES(proxy)) == set()


async def test_deletion_leaves_no_key_of_the_session_but_timeline_and_tombstone(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store, phone=PHONE, session_id="shop")
    await connect(store, made.session_id, PHONE)
    await store.sessions.delete("shop", keep_s=60, forget=True)
    left = {key async for key in store.connection.client.scan_iter("*shop*")}
    assert left == {keys.SESSION_EVENTS("shop"), keys.SESSION_DELETED("shop")}


async def test_only_a_half_made_session_is_removed_as_half_made(store: Store) -> None:
    await add_proxies(store, 1)
    half, whole = await reserve(store), await reserve(store)
    await store.sessions.confirm(whole.session_id)
    assert await store.sessions.delete(half.session_id, keep_s=60, only_unconfirmed=True)
    assert not await store.sessions.delete(whole.session_id, keep_s=60, only_unconfirmed=True)
    assert await store.sessions.all_ids() == [whole.session_id]
    await assert_sound(store)


async def test_half_made_sessions_are_found_when_overdue(store: Store, clock: ManualClock) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    assert await store.sessions.overdue_unconfirmed() == []
    clock.advance(seconds=61)
    assert await store.sessions.overdue_unconfirmed() == [made.session_id]


async def test_a_session_nobody_scans_gives_its_slot_back(store: Store) -> None:
    (proxy,) = await add_proxies(store, 1)
    made = await reserve(store)
    assert await store.sessions.release(
        made.session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED, only_unscanned=True
    )
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert (session.status, session.reason, session.proxy_id) == (Status.STOPPED, "SCAN_TIMEOUT", "")
    found = await store.proxies.get(proxy)
    assert found is not None
    assert found.sessions == ()
    await assert_sound(store)


async def test_a_connected_session_is_never_released_as_unscanned(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    await connect(store, made.session_id, PHONE)
    assert not await store.sessions.release(
        made.session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED, only_unscanned=True
    )
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert session.status == Status.CONNECTED


async def test_starting_again_takes_a_slot_again(store: Store) -> None:
    (proxy,) = await add_proxies(store, 1)
    made = await reserve(store)
    await store.sessions.release(made.session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED)
    assert await store.sessions.order(made.session_id, "start")
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert (session.proxy_id, session.status, session.wanted) == (proxy, Status.PENDING, Wanted.RUNNING)
    await assert_sound(store)


async def test_starting_without_a_free_slot_is_refused_and_changes_nothing(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    await store.sessions.release(made.session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED)
    for _ in range(4):
        await reserve(store)
    with pytest.raises(errors.NoProxyAvailable):
        await store.sessions.order(made.session_id, "start")
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert session.status == Status.STOPPED
    await assert_sound(store)


async def test_start_and_stop_may_be_repeated(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    assert not await store.sessions.order(made.session_id, "start")
    assert await store.sessions.order(made.session_id, "stop")
    assert not await store.sessions.order(made.session_id, "stop")
    assert await store.sessions.order(made.session_id, "start")
    assert not await store.sessions.order(made.session_id, "start")
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert session.run_order == 2


async def test_a_restart_for_an_older_run_changes_nothing(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    assert await store.sessions.order(made.session_id, "restart", only_if_run_order=1)
    assert not await store.sessions.order(made.session_id, "restart", only_if_run_order=1)


async def test_a_session_marked_for_deletion_cannot_be_started(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    await store.sessions.order(made.session_id, "delete")
    with pytest.raises(errors.SessionNotFound):
        await store.sessions.order(made.session_id, "start")
