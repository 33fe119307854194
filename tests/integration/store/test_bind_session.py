"""CONNECTED: what becomes of the bindings."""

from __future__ import annotations

import pytest

from support.registry import OTHER_PHONE, PHONE, add_proxies, assert_sound, connect, reserve
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Status, Wanted
from wa_orchestrator.store import Store, keys


async def bound_phone(store: Store, proxy: str, phone: str = PHONE) -> None:
    """A phone that was connected once on `proxy`; its session is gone."""
    made = await reserve(store, proxy_id=proxy)
    await connect(store, made.session_id, phone)
    await store.sessions.delete(made.session_id, keep_s=60)


async def test_connecting_binds_phone_to_proxy_and_session(store: Store) -> None:
    (proxy,) = await add_proxies(store, 1)
    made = await reserve(store)
    assert await connect(store, made.session_id, PHONE) == "bound"
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert (session.status, session.phone) == (Status.CONNECTED, PHONE)
    assert await store.sessions.bound_proxy(PHONE) == proxy
    assert await store.connection.call("SMEMBERS", keys.PHONE_SESSION(PHONE)) == {made.session_id}
    assert not await store.connection.call("EXISTS", keys.SESSION_TEMP(made.session_id))
    await assert_sound(store)


async def test_connecting_twice_changes_nothing_further(store: Store, clock: ManualClock) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    await connect(store, made.session_id, PHONE, seq=3)
    before = await store.connection.call("HGETALL", keys.SESSION(made.session_id))
    clock.advance(seconds=5)
    assert await connect(store, made.session_id, PHONE, seq=3) == "repeat"
    assert await connect(store, made.session_id, PHONE, seq=2) == "repeat"
    assert await store.connection.call("HGETALL", keys.SESSION(made.session_id)) == before


async def test_trust_counts_from_the_first_connect_of_the_phone(store: Store, clock: ManualClock) -> None:
    await add_proxies(store, 1)
    first = await reserve(store)
    await connect(store, first.session_id, PHONE)
    began = clock.now_ms()
    await store.sessions.delete(first.session_id, keep_s=60)
    clock.advance(seconds=86400)
    second = await reserve(store)
    await connect(store, second.session_id, PHONE)
    assert await store.sessions.first_connected_at(PHONE) == began


async def test_connected_of_a_deleted_session_is_refused(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    await store.sessions.delete(made.session_id, keep_s=60)
    with pytest.raises(errors.SessionNotFound):
        await connect(store, made.session_id, PHONE)
    assert await store.sessions.bound_proxy(PHONE) is None
    await assert_sound(store)


async def test_connected_of_a_stopped_session_is_late(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    await store.sessions.order(made.session_id, "stop")
    assert await connect(store, made.session_id, PHONE) == "late"
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert session.status == Status.STOPPED
    assert await store.sessions.bound_proxy(PHONE) is None


async def test_connected_from_before_the_last_start_is_late(store: Store, clock: ManualClock) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    old = clock.now_ms()
    clock.advance(seconds=10)
    await store.sessions.order(made.session_id, "restart")
    assert await connect(store, made.session_id, PHONE, at=old) == "late"


async def test_a_phone_bound_elsewhere_is_moved_to_its_own_proxy(store: Store) -> None:
    own, other = await add_proxies(store, 2)
    await bound_phone(store, own)
    await reserve(store, proxy_id=own)
    made = await reserve(store)
    assert made.proxy_id == other
    assert await connect(store, made.session_id, PHONE) == "moved"
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert (session.proxy_id, session.status, session.run_order) == (own, Status.RECONNECTING, 2)
    assert await store.sessions.bound_proxy(PHONE) == own
    await assert_sound(store)


async def test_a_proxy_given_by_hand_wins_and_rebinds(store: Store) -> None:
    own, other = await add_proxies(store, 2)
    await bound_phone(store, own)
    made = await reserve(store, proxy_id=other)
    assert await connect(store, made.session_id, PHONE) == "bound"
    assert await store.sessions.bound_proxy(PHONE) == other
    assert await store.connection.call("SMEMBERS", keys.PROXY_PHONES(own)) == set()


async def test_a_binding_to_a_bad_proxy_gives_way(store: Store) -> None:
    own, other = await add_proxies(store, 2)
    await bound_phone(store, own)
    await store.proxies.mark(own, ProxyStatus.BAD, error="x", kind="timeout")
    made = await reserve(store)
    assert await connect(store, made.session_id, PHONE) == "bound"
    assert await store.sessions.bound_proxy(PHONE) == other


async def test_the_wrong_phone_ends_the_session_and_binds_nothing(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store, phone=PHONE)
    assert await connect(store, made.session_id, OTHER_PHONE) == "wrong_phone"
    session = await store.sessions.get(made.session_id)
    assert session is not None
    assert (session.status, session.reason, session.wanted) == (Status.FAILED, "WRONG_PHONE", Wanted.STOPPED)
    assert session.proxy_id == ""
    assert await store.sessions.bound_proxy(OTHER_PHONE) is None
    assert await store.sessions.bound_proxy(PHONE) is None
    await assert_sound(store)


async def test_a_full_own_proxy_ends_the_session_instead_of_changing_the_binding(store: Store) -> None:
    own, _ = await add_proxies(store, 2)
    await bound_phone(store, own)
    for _ in range(4):
        await reserve(store, proxy_id=own)
    made = await reserve(store)
    assert await connect(store, made.session_id, PHONE) == "sticky_full"
    assert await store.sessions.bound_proxy(PHONE) == own
    await assert_sound(store)


async def test_no_phone_gets_more_sessions_than_allowed(store: Store) -> None:
    await add_proxies(store, 3)
    made = [await reserve(store) for _ in range(5)]
    outcomes = [await connect(store, m.session_id, PHONE) for m in made]
    assert outcomes.count("phone_full") == 1
    assert outcomes[-1] == "phone_full"
    await assert_sound(store)
