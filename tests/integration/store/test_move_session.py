"""Failover at the store: slot, binding and session move in one step or not at all."""

from __future__ import annotations

import pytest

from support.registry import PHONE, add_proxies, assert_sound, connect, reserve
from wa_orchestrator import errors
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store, keys


async def test_a_move_takes_slot_and_binding_along(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    made = await reserve(store, proxy_id=first)
    await connect(store, made.session_id, PHONE)
    moved = await store.sessions.move(made.session_id, reason="PROXY_FAILED", from_proxy=first)
    assert moved["moved"]
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert (session.proxy_id, session.status, session.run_order) == (second, Status.RECONNECTING, 2)
    assert await store.sessions.bound_proxy(PHONE) == second
    await assert_sound(store)


async def test_the_same_fault_moves_only_once(store: Store) -> None:
    await add_proxies(store, 3)
    made = await reserve(store)
    first = made.proxy_id
    assert (await store.sessions.move(made.session_id, reason="x", from_proxy=first))["moved"]
    again = await store.sessions.move(made.session_id, reason="x", from_proxy=first)
    assert not again["moved"]
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert session.run_order == 2


async def test_without_a_free_slot_the_session_waits_and_keeps_its_place(store: Store) -> None:
    (only,) = await add_proxies(store, 1)
    made = await reserve(store)
    await connect(store, made.session_id, PHONE)
    await store.proxies.mark(only, ProxyStatus.BAD, error="x", kind="refused")
    answer = await store.sessions.move(made.session_id, reason="PROXY_FAILED", from_proxy=only)
    assert answer["waiting"]
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert (session.status, session.reason) == (Status.DISCONNECTED, "NO_PROXY_AVAILABLE")
    assert session.waiting_for_proxy
    assert await store.sessions.bound_proxy(PHONE) == only
    await assert_sound(store)


async def test_an_unscanned_session_moves_its_temporary_binding(store: Store) -> None:
    proxies = await add_proxies(store, 2)
    made = await reserve(store)
    await store.sessions.move(made.session_id, reason="PROXY_FAILED", from_proxy=made.proxy_id)
    (second,) = set(proxies) - {made.proxy_id}
    assert await store.connection.call("GET", keys.SESSION_TEMP(made.session_id)) == second


async def test_a_proxy_given_by_hand_for_an_unlinked_phone_is_not_replaced(store: Store) -> None:
    first, _ = await add_proxies(store, 2)
    made = await reserve(store, proxy_id=first)
    answer = await store.sessions.move(made.session_id, reason="PROXY_FAILED", from_proxy=first)
    assert answer["waiting"]
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert (session.proxy_id, session.reason) == (first, "GIVEN_PROXY_FAILED")
    await assert_sound(store)


async def test_a_session_on_a_working_proxy_stays_when_no_slot_is_free_elsewhere(store: Store) -> None:
    (only,) = await add_proxies(store, 1)
    made = await reserve(store)
    await connect(store, made.session_id, PHONE)
    answer = await store.sessions.move(made.session_id, reason="DRAIN", from_proxy=only, healthy=True)
    assert (answer["moved"], answer["waiting"]) == (False, False)
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert session.status == Status.CONNECTED


async def test_moving_to_a_named_proxy_checks_it(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    made = await reserve(store, proxy_id=first)
    with pytest.raises(errors.ProxyNotFound):
        await store.sessions.move(made.session_id, reason="ORDERED", to_proxy="px_nowhere")
    for _ in range(4):
        await reserve(store, proxy_id=second)
    with pytest.raises(errors.ProxyFull):
        await store.sessions.move(made.session_id, reason="ORDERED", to_proxy=second)
    await store.proxies.mark(second, ProxyStatus.BAD, error="x", kind="auth")
    with pytest.raises(errors.ProxyBad):
        await store.sessions.move(made.session_id, reason="ORDERED", to_proxy=second)
    await assert_sound(store)


async def test_all_sessions_of_a_phone_follow_to_one_proxy(store: Store) -> None:
    await add_proxies(store, 3)
    made = [await reserve(store, phone=PHONE, allow_additional=True) for _ in range(3)]
    home = made[0].proxy_id
    for m in made:
        await connect(store, m.session_id, PHONE)
    await store.proxies.mark(home, ProxyStatus.BAD, error="x", kind="timeout")
    for m in made:
        await store.sessions.move(m.session_id, reason="PROXY_FAILED", from_proxy=home)
    sessions = [await store.sessions.get(m.session_id) for m in made]
    assert len({s.proxy_id for s in sessions if s}) == 1
    await assert_sound(store)
