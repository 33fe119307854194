"""All sessions of one phone share one proxy, and its binding changes only for a reason."""

from __future__ import annotations

import pytest

from support.registry import (
    FAR_AWAY,
    OTHER_PHONE,
    PHONE,
    add_proxies,
    assert_sound,
    connect,
    request,
    reserve,
)
from wa_orchestrator import errors
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.sessions import EventEffect, EventNumber

REPLACED = EventEffect(status=Status.FAILED, reason="REPLACED", park=True)
LOGGED_OUT = EventEffect(status=Status.LOGGED_OUT, reason="LOGGED_OUT", unlink=True, park=True)
LOST = EventEffect(status=Status.RECONNECTING, reason="CONNECTION_LOST")
CODE = EventEffect(status=Status.QR_READY, qr='{"qr":"2@a","expiresAt":1}', qr_ms=60_000)


async def look(store: Store, session_id: str) -> Session:
    found = await store.sessions.get(session_id)
    assert found is not None
    return found


async def report(store: Store, session_id: str, effect: EventEffect) -> str:
    answer = await store.sessions.apply_event(
        session_id, EventNumber(at=FAR_AWAY), kind="DISCONNECTED", effect=effect, data={}
    )
    return str(answer["outcome"])


async def turn_bad(store: Store, proxy: str) -> list[str]:
    _, sessions = await store.proxies.mark(proxy, ProxyStatus.BAD, error="x", kind="timeout")
    return sessions


async def fail_over(store: Store, proxy: str) -> None:
    for session_id in await turn_bad(store, proxy):
        await store.sessions.move(session_id, reason="PROXY_FAILED", from_proxy=proxy)


# provisioning -----------------------------------------------------------------------------------------------------
async def test_an_additional_session_joins_the_one_that_holds_a_proxy(valkey_store: Store) -> None:
    await add_proxies(valkey_store, 3)
    first = await reserve(valkey_store, phone=PHONE, session_id="a")
    second = await reserve(valkey_store, phone=PHONE, session_id="b", allow_additional=True)
    await valkey_store.sessions.release("a", reason="SCAN_TIMEOUT", status=Status.STOPPED)
    third = await reserve(valkey_store, phone=PHONE, session_id="c", allow_additional=True)
    assert first.proxy_id == second.proxy_id == third.proxy_id


async def test_a_session_without_a_slot_does_not_stand_in_the_way_of_a_proxy_given_by_hand(
    valkey_store: Store,
) -> None:
    _, other = await add_proxies(valkey_store, 2)
    await reserve(valkey_store, phone=PHONE, session_id="a")
    await valkey_store.sessions.release("a", reason="SCAN_TIMEOUT", status=Status.STOPPED)
    made = await reserve(valkey_store, phone=PHONE, proxy_id=other, allow_additional=True)
    assert made.proxy_id == other


async def test_rebind_holds_when_the_phone_connects(valkey_store: Store) -> None:
    own, other = await add_proxies(valkey_store, 2)
    first = await reserve(valkey_store, phone=PHONE, proxy_id=own)
    await connect(valkey_store, first.session_id, PHONE)
    await valkey_store.sessions.delete(first.session_id, keep_s=60)
    for _ in range(4):
        await reserve(valkey_store, proxy_id=own)
    made = await reserve(valkey_store, phone=PHONE, rebind=True)
    assert await connect(valkey_store, made.session_id, PHONE) == "bound"
    assert await valkey_store.sessions.bound_proxy(PHONE) == other
    await assert_sound(valkey_store)


# starting again ---------------------------------------------------------------------------------------------------
async def test_starting_again_joins_the_other_session_of_the_phone(valkey_store: Store) -> None:
    await add_proxies(valkey_store, 3)
    first = await reserve(valkey_store, phone=PHONE, session_id="a")
    await reserve(valkey_store, phone=PHONE, session_id="b", allow_additional=True)
    await valkey_store.sessions.release("a", reason="SCAN_TIMEOUT", status=Status.STOPPED)
    await valkey_store.sessions.order("a", "start", scan_by=FAR_AWAY)
    assert (await look(valkey_store, "a")).proxy_id == first.proxy_id


async def test_an_ended_session_starts_on_the_proxy_its_phone_was_bound_to_meanwhile(valkey_store: Store) -> None:
    old, new = await add_proxies(valkey_store, 2)
    await reserve(valkey_store, session_id="a", proxy_id=old)
    await connect(valkey_store, "a", PHONE)
    await report(valkey_store, "a", REPLACED)
    await reserve(valkey_store, session_id="b", phone=PHONE, proxy_id=new)
    await connect(valkey_store, "b", PHONE)
    await valkey_store.sessions.order("a", "start", scan_by=FAR_AWAY)
    session = await look(valkey_store, "a")
    assert (session.proxy_id, session.run_order) == (new, 2)
    await assert_sound(valkey_store)


async def test_an_ended_session_is_not_started_when_its_phones_proxy_is_full(valkey_store: Store) -> None:
    old, new = await add_proxies(valkey_store, 2)
    await reserve(valkey_store, session_id="a", proxy_id=old)
    await connect(valkey_store, "a", PHONE)
    await report(valkey_store, "a", REPLACED)
    await reserve(valkey_store, session_id="b", phone=PHONE, proxy_id=new)
    await connect(valkey_store, "b", PHONE)
    for _ in range(3):
        await reserve(valkey_store, proxy_id=new)
    before = await look(valkey_store, "a")
    with pytest.raises(errors.StickyProxyFull):
        await valkey_store.sessions.order("a", "start", scan_by=FAR_AWAY)
    assert await look(valkey_store, "a") == before


async def test_a_restart_gives_the_whole_time_to_scan_again(valkey_store: Store) -> None:
    await add_proxies(valkey_store, 1)
    made = await valkey_store.sessions.reserve(request(), scan_by=1_700_000_001_000)
    await valkey_store.sessions.order(made.session_id, "restart", scan_by=FAR_AWAY)
    score = await valkey_store.connection.call("ZSCORE", keys.SESSIONS_UNSCANNED(), made.session_id)
    assert int(float(score)) == FAR_AWAY


async def test_a_logged_out_session_that_nobody_scans_again_gives_its_slot_back(valkey_store: Store) -> None:
    await add_proxies(valkey_store, 1)
    made = await reserve(valkey_store)
    await connect(valkey_store, made.session_id, PHONE)
    await report(valkey_store, made.session_id, LOGGED_OUT)
    await valkey_store.sessions.order(made.session_id, "restart", scan_by=1)
    assert await valkey_store.sessions.overdue_unscanned() == [made.session_id]
    assert await valkey_store.sessions.release(
        made.session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED, only_unscanned=True
    )
    assert await valkey_store.sessions.bound_proxy(PHONE) == made.proxy_id, "the binding stays"
    await assert_sound(valkey_store)


# failover ---------------------------------------------------------------------------------------------------------
async def test_sessions_waiting_for_a_scan_are_moved_together(valkey_store: Store) -> None:
    home, *_ = await add_proxies(valkey_store, 4)
    for name in ("a", "b", "c"):
        await reserve(valkey_store, phone=PHONE, session_id=name, allow_additional=True)
    home = (await look(valkey_store, "a")).proxy_id
    await fail_over(valkey_store, home)
    places = {(await look(valkey_store, name)).proxy_id for name in ("a", "b", "c")}
    assert len(places) == 1
    assert home not in places


async def test_a_phone_is_not_split_over_two_proxies_when_slots_are_short(valkey_store: Store) -> None:
    home, narrow, other = await add_proxies(valkey_store, 3)
    for name in ("a", "b"):
        await reserve(valkey_store, session_id=name, phone=PHONE, allow_additional=True, proxy_id=home)
        await connect(valkey_store, name, PHONE)
    for proxy in (narrow, narrow, narrow, other, other, other):
        await reserve(valkey_store, proxy_id=proxy)
    await fail_over(valkey_store, home)
    sessions = [await look(valkey_store, name) for name in ("a", "b")]
    moved = [s for s in sessions if s.proxy_id != home]
    waiting = [s for s in sessions if s.waiting_for_proxy]
    assert (len(moved), len(waiting)) == (1, 1)
    assert (waiting[0].status, waiting[0].reason) == (Status.DISCONNECTED, "NO_PROXY_AVAILABLE")
    assert await valkey_store.sessions.bound_proxy(PHONE) == moved[0].proxy_id
    await assert_sound(valkey_store)


@pytest.mark.parametrize("effect", [REPLACED, LOGGED_OUT, None])
async def test_an_ended_session_does_not_wait_for_a_proxy(valkey_store: Store, effect: EventEffect | None) -> None:
    (only,) = await add_proxies(valkey_store, 1)
    made = await reserve(valkey_store)
    await connect(valkey_store, made.session_id, PHONE)
    if effect:
        await report(valkey_store, made.session_id, effect)
    else:
        await valkey_store.sessions.order(made.session_id, "stop")
    before = await look(valkey_store, made.session_id)
    await fail_over(valkey_store, only)
    assert await look(valkey_store, made.session_id) == before
    assert await valkey_store.sessions.waiting() == frozenset()


async def test_moving_an_ended_session_leaves_a_healthy_binding_alone(valkey_store: Store) -> None:
    old, own, spare = await add_proxies(valkey_store, 3)
    await reserve(valkey_store, session_id="a", proxy_id=old)
    await connect(valkey_store, "a", PHONE)
    await report(valkey_store, "a", REPLACED)
    await reserve(valkey_store, session_id="b", phone=PHONE, proxy_id=own)
    await connect(valkey_store, "b", PHONE)
    await valkey_store.sessions.delete("b", keep_s=60)
    for _ in range(4):
        await reserve(valkey_store, proxy_id=own)
    await fail_over(valkey_store, old)
    assert (await look(valkey_store, "a")).proxy_id == spare
    assert await valkey_store.sessions.bound_proxy(PHONE) == own


async def test_a_session_without_a_slot_takes_none_by_a_failover(valkey_store: Store) -> None:
    await add_proxies(valkey_store, 2)
    made = await reserve(valkey_store)
    await valkey_store.sessions.release(made.session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED)
    answer = await valkey_store.sessions.move(made.session_id, reason="PROXY_FAILED")
    assert (answer["moved"], answer["waiting"]) == (False, False)
    assert (await look(valkey_store, made.session_id)).proxy_id == ""


async def test_one_session_of_a_phone_is_not_moved_away_from_the_others(valkey_store: Store) -> None:
    home, other = await add_proxies(valkey_store, 2)
    for name in ("a", "b"):
        await reserve(valkey_store, session_id=name, phone=PHONE, allow_additional=True, proxy_id=home)
    with pytest.raises(errors.PhoneOnOtherProxy):
        await valkey_store.sessions.move("a", reason="ORDERED", to_proxy=other)


@pytest.mark.parametrize("room", [True, False])
async def test_a_waiting_session_goes_on_where_its_phone_was_bound_meanwhile(valkey_store: Store, room: bool) -> None:
    (home,) = await add_proxies(valkey_store, 1)
    await reserve(valkey_store, session_id="a")
    await connect(valkey_store, "a", PHONE)
    await fail_over(valkey_store, home)
    _, other = await add_proxies(valkey_store, 2)
    await reserve(valkey_store, session_id="b")
    await connect(valkey_store, "b", PHONE)
    assert await valkey_store.sessions.bound_proxy(PHONE) == other, "its own proxy had failed"
    for _ in range(0 if room else 3):
        await reserve(valkey_store, proxy_id=other)
    await valkey_store.proxies.mark(home, ProxyStatus.ACTIVE)
    assert await valkey_store.sessions.stop_waiting("a") == room
    session = await look(valkey_store, "a")
    assert (session.proxy_id, session.waiting_for_proxy) == ((other, False) if room else (home, True))
    await assert_sound(valkey_store)


# connecting -------------------------------------------------------------------------------------------------------
async def test_a_waiting_session_that_ends_waits_no_more(valkey_store: Store) -> None:
    (only,) = await add_proxies(valkey_store, 1)
    made = await reserve(valkey_store, phone=PHONE)
    await fail_over(valkey_store, only)
    assert await valkey_store.sessions.waiting() == {made.session_id}
    assert await connect(valkey_store, made.session_id, OTHER_PHONE) == "wrong_phone"
    assert await valkey_store.sessions.waiting() == frozenset()
    session = await look(valkey_store, made.session_id)
    assert (session.status, session.proxy_id, session.wanted) == (Status.FAILED, "", Wanted.STOPPED)


@pytest.mark.parametrize("effect", [REPLACED, LOGGED_OUT])
async def test_a_waiting_session_that_whatsapp_ended_waits_no_more(valkey_store: Store, effect: EventEffect) -> None:
    (only,) = await add_proxies(valkey_store, 1)
    made = await reserve(valkey_store)
    await connect(valkey_store, made.session_id, PHONE)
    await fail_over(valkey_store, only)
    assert await report(valkey_store, made.session_id, effect) == "applied"
    assert await valkey_store.sessions.waiting() == frozenset()
    assert (await look(valkey_store, made.session_id)).status is effect.status


async def test_a_waiting_session_says_so_though_its_worker_connected_meanwhile(valkey_store: Store) -> None:
    (only,) = await add_proxies(valkey_store, 1)
    made = await reserve(valkey_store, phone=PHONE)
    await fail_over(valkey_store, only)
    assert await connect(valkey_store, made.session_id, PHONE) == "bound"
    assert await report(valkey_store, made.session_id, LOST) == "noted"
    session = await look(valkey_store, made.session_id)
    assert (session.status, session.reason) == (Status.DISCONNECTED, "NO_PROXY_AVAILABLE")
    assert session.linked
    await valkey_store.proxies.mark(only, ProxyStatus.ACTIVE)
    assert await valkey_store.sessions.stop_waiting(made.session_id)
    assert (await look(valkey_store, made.session_id)).status is Status.RECONNECTING


async def test_after_the_wrong_phone_a_new_start_shows_a_new_code(valkey_store: Store) -> None:
    await add_proxies(valkey_store, 1)
    made = await reserve(valkey_store)
    await connect(valkey_store, made.session_id, PHONE)
    assert await connect(valkey_store, made.session_id, OTHER_PHONE) == "wrong_phone"
    await valkey_store.sessions.order(made.session_id, "start", scan_by=FAR_AWAY)
    session = await look(valkey_store, made.session_id)
    assert (session.status, session.linked, session.discard_auth) == (Status.PENDING, False, True)
    assert await report(valkey_store, made.session_id, CODE) == "applied"


# codes ------------------------------------------------------------------------------------------------------------
async def test_a_connection_lost_before_the_scan_is_followed_by_a_new_code(valkey_store: Store) -> None:
    await add_proxies(valkey_store, 1)
    made = await reserve(valkey_store)
    for effect in (CODE, LOST, CODE):
        assert await report(valkey_store, made.session_id, effect) == "applied"
    assert (await look(valkey_store, made.session_id)).status is Status.QR_READY
    assert await valkey_store.sessions.qr(made.session_id) is not None


async def test_a_linked_session_never_shows_a_code_again(valkey_store: Store) -> None:
    await add_proxies(valkey_store, 1)
    made = await reserve(valkey_store)
    await connect(valkey_store, made.session_id, PHONE)
    for effect in (LOST, EventEffect(status=Status.DISCONNECTED, reason="PROXY_ERROR")):
        await report(valkey_store, made.session_id, effect)
        assert await report(valkey_store, made.session_id, CODE) == "late"
        assert (await look(valkey_store, made.session_id)).status is effect.status
        assert await valkey_store.sessions.qr(made.session_id) is None
