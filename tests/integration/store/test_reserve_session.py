"""Making a session: record, slot and temporary binding in one step."""

from __future__ import annotations

import pytest

from support.registry import PHONE, add_proxies, assert_sound, connect, request, reserve
from wa_orchestrator import errors
from wa_orchestrator.model.proxy import ProxyAddress, ProxyStatus
from wa_orchestrator.model.session import Status, Wanted
from wa_orchestrator.store import Store, keys


async def test_a_new_session_is_pending_on_the_least_loaded_proxy(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    made = [await reserve(store) for _ in range(4)]
    assert [m.session_id for m in made] == ["worker_1", "worker_2", "worker_3", "worker_4"]
    assert sorted(m.proxy_id for m in made) == sorted([first, first, second, second])
    session = await store.sessions.get("worker_1")
    assert session is not None
    assert (session.status, session.wanted) == (Status.PENDING, Wanted.RUNNING)
    await assert_sound(store)


async def test_no_proxy_takes_more_than_its_slots(store: Store) -> None:
    await add_proxies(store, 2)
    for _ in range(8):
        await reserve(store)
    with pytest.raises(errors.NoProxyAvailable):
        await reserve(store)
    await assert_sound(store)


async def test_the_same_token_finds_the_first_session_again(store: Store) -> None:
    await add_proxies(store, 1)
    first = await reserve(store, token="one-call")
    assert await reserve(store, token="one-call") == first
    assert await store.sessions.all_ids() == [first.session_id]


async def test_an_id_that_exists_is_refused(store: Store) -> None:
    await add_proxies(store, 1)
    await reserve(store, session_id="shop")
    with pytest.raises(errors.SessionExists):
        await reserve(store, session_id="shop")


async def test_numbers_skip_ids_that_were_given_by_hand(store: Store) -> None:
    await add_proxies(store, 1)
    await reserve(store, session_id="worker_1")
    assert (await reserve(store)).session_id == "worker_2"


async def test_a_phone_on_a_live_session_is_refused_and_the_session_named(store: Store) -> None:
    await add_proxies(store, 2)
    await reserve(store, phone=PHONE, session_id="first")
    with pytest.raises(errors.PhoneAlreadyRegistered) as refused:
        await reserve(store, phone=PHONE)
    assert refused.value.details is not None
    assert refused.value.details["sessionId"] == "first"
    await assert_sound(store)


async def test_additional_sessions_of_a_phone_share_its_proxy_up_to_the_limit(store: Store) -> None:
    await add_proxies(store, 3)
    made = [await reserve(store, phone=PHONE, allow_additional=True) for _ in range(4)]
    assert len({m.proxy_id for m in made}) == 1
    with pytest.raises(errors.PhoneAlreadyRegistered):
        await reserve(store, phone=PHONE, allow_additional=True)


async def test_an_additional_session_cannot_be_put_on_another_proxy(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    await reserve(store, phone=PHONE, proxy_id=first)
    with pytest.raises(errors.PhoneOnOtherProxy):
        await reserve(store, phone=PHONE, proxy_id=second, allow_additional=True)


async def test_a_bound_phone_gets_its_own_proxy_back(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    made = await reserve(store, phone=PHONE, proxy_id=second)
    await connect(store, made.session_id, PHONE)
    await store.sessions.delete(made.session_id, keep_s=60)
    await reserve(store, proxy_id=second)  # now the other one is less loaded
    assert (await reserve(store, phone=PHONE)).proxy_id == second
    assert first != second


async def test_a_full_own_proxy_is_said_and_rebind_chooses_another(store: Store) -> None:
    own, other = await add_proxies(store, 2)
    made = await reserve(store, phone=PHONE, proxy_id=own)
    await connect(store, made.session_id, PHONE)
    await store.sessions.delete(made.session_id, keep_s=60)
    for _ in range(4):
        await reserve(store, proxy_id=own)
    with pytest.raises(errors.StickyProxyFull):
        await reserve(store, phone=PHONE)
    assert (await reserve(store, phone=PHONE, rebind=True)).proxy_id == other


async def test_a_bad_own_proxy_is_replaced(store: Store) -> None:
    own, other = await add_proxies(store, 2)
    made = await reserve(store, phone=PHONE, proxy_id=own)
    await connect(store, made.session_id, PHONE)
    await store.sessions.delete(made.session_id, keep_s=60)
    await store.proxies.mark(own, ProxyStatus.BAD, error="refused", kind="refused")
    assert (await reserve(store, phone=PHONE)).proxy_id == other


async def test_a_proxy_given_by_hand_must_exist_be_healthy_and_have_room(store: Store) -> None:
    (proxy,) = await add_proxies(store, 1)
    with pytest.raises(errors.ProxyNotFound):
        await reserve(store, proxy_id="px_unknown")
    for _ in range(4):
        await reserve(store, proxy_id=proxy)
    with pytest.raises(errors.ProxyFull):
        await reserve(store, proxy_id=proxy)
    await store.proxies.mark(proxy, ProxyStatus.BAD, error="x", kind="timeout")
    with pytest.raises(errors.ProxyBad):
        await reserve(store, proxy_id=proxy)
    await assert_sound(store)


async def test_an_unknown_proxy_address_joins_the_pool_with_the_session(store: Store) -> None:
    address = ProxyAddress("proxy.example", 1080, "user", "pass")
    made = await store.sessions.reserve(request(proxy_id=address.proxy_id, proxy_address=address), scan_by=10**15)
    proxy = await store.proxies.get(made.proxy_id)
    assert proxy is not None
    assert proxy.sessions == (made.session_id,)
    assert proxy.address == address


async def test_a_refusal_leaves_nothing_behind(store: Store) -> None:
    address = ProxyAddress("proxy.example", 1080, "user", "pass")
    await add_proxies(store, 1)
    await reserve(store, session_id="shop")
    with pytest.raises(errors.SessionExists):
        await store.sessions.reserve(
            request(session_id="shop", proxy_id=address.proxy_id, proxy_address=address), scan_by=10**15
        )
    assert await store.proxies.get(address.proxy_id) is None
    assert await store.connection.call("ZCARD", keys.SESSIONS_ALL()) == 1
    await assert_sound(store)
