"""A session out of the store and back into it: everything returns, the cap holds, repeats change nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.registry import (
    FAR_AWAY,
    OTHER_PHONE,
    PHONE,
    add_proxies,
    address,
    assert_sound,
    connect,
    reserve,
)
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Status, Wanted
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.carrying import Placed

TOKEN = "op_1"


async def put_back(
    store: Store, session_id: str, state: dict[str, Any], *, token: str = TOKEN, mode: str = "backup", **more: Any
) -> Placed:
    return await store.carrying.restore(session_id, state, token=token, mode=mode, backup="b", scan_by=FAR_AWAY, **more)


async def linked(store: Store, phone: str = PHONE, **wanted: Any) -> str:
    made = await reserve(store, **wanted)
    await store.sessions.confirm(made.session_id)
    await connect(store, made.session_id, phone)
    return made.session_id


async def test_everything_returns_into_an_empty_store(store: Store, clock: ManualClock) -> None:
    await add_proxies(store, 2)
    session_id = await linked(store, label="shop", metadata={"a": "b"})
    await store.lanes.set_override(session_id, {"daily": 3})
    lane = {
        "dayCount": "7",
        "dayStartsAt": str(clock.now_ms()),
        "dayEndsAt": str(clock.now_ms() + 10**7),
        "daily": "20",
    }
    await store.connection.call("HSET", keys.LANE(PHONE), *[x for pair in lane.items() for x in pair])
    await store.connection.call("RPUSH", keys.LANE_MINUTE(PHONE), "2", "1")
    before = await store.sessions.get(session_id)
    first, bound = await store.sessions.first_connected_at(PHONE), await store.sessions.bound_proxy(PHONE)
    state = await store.carrying.collect(session_id)

    await store.connection.call("FLUSHALL")
    clock.advance(seconds=3600)
    assert await put_back(store, session_id, state) == Placed(placed=True, proxy_id=bound or "")

    after = await store.sessions.get(session_id)
    assert before
    assert after
    assert (after.status, after.reason, after.wanted) == (Status.RECONNECTING, "RESTORED", Wanted.RUNNING)
    for name in ("proxy_id", "phone", "jid", "label", "metadata", "created_at", "restarts", "fingerprint"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.run_order > before.run_order
    assert await store.sessions.first_connected_at(PHONE) == first
    assert await store.sessions.bound_proxy(PHONE) == bound
    assert await store.lanes.sessions_of(PHONE) == [session_id]
    assert await store.lanes.override(session_id) == {"daily": 3}
    assert (await store.lanes.get(PHONE))["dayCount"] == "7"
    assert await store.connection.call("LRANGE", keys.LANE_MINUTE(PHONE), 0, -1) == ["2", "1"]
    proxy = await store.proxies.get(bound or "")
    assert proxy
    assert proxy.address.password == "pass"
    assert (await reserve(store)).session_id == "worker_2"  # the number goes on
    await assert_sound(store)


async def test_a_repeat_changes_nothing(store: Store) -> None:
    await add_proxies(store, 1)
    session_id = await linked(store)
    state = await store.carrying.collect(session_id)
    await put_back(store, session_id, state)
    once = await store.sessions.get(session_id)
    number = await store.journal.last_number()
    await put_back(store, session_id, state)
    assert await store.sessions.get(session_id) == once
    assert await store.journal.last_number() == number


async def test_a_lane_that_is_there_knows_better_what_was_sent(store: Store) -> None:
    await add_proxies(store, 1)
    session_id = await linked(store)
    await store.connection.call("HSET", keys.LANE(PHONE), "dayCount", "3")
    state = await store.carrying.collect(session_id)
    await store.connection.call("HSET", keys.LANE(PHONE), "dayCount", "9")
    await put_back(store, session_id, state)
    assert (await store.lanes.get(PHONE))["dayCount"] == "9"


async def test_trust_counts_from_the_earlier_date(store: Store, clock: ManualClock) -> None:
    await add_proxies(store, 1)
    session_id = await linked(store)
    state = await store.carrying.collect(session_id)
    first = await store.sessions.first_connected_at(PHONE)
    await store.connection.call("HSET", keys.PHONE(PHONE), "firstConnectedAt", (first or 0) - 5)
    await put_back(store, session_id, state)
    assert await store.sessions.first_connected_at(PHONE) == (first or 0) - 5


async def test_the_cap_holds_whatever_is_restored(store: Store) -> None:
    (only,) = await add_proxies(store, 1)
    ids = [await linked(store, f"97250000001{n}") for n in range(4)]
    states = {i: await store.carrying.collect(i) for i in ids}
    await store.connection.call("FLUSHALL")
    await add_proxies(store, 1)
    for n in range(2):
        await linked(store, f"97250000009{n}", session_id=f"new_{n}")
    placed = await asyncio.gather(*(put_back(store, i, state) for i, state in states.items()))
    assert sorted(p.placed for p in placed) == [False, False, True, True]
    without = [i for i, p in zip(states, placed, strict=True) if not p.placed]
    for session in await store.sessions.many(without):
        assert (session.status, session.reason, session.wanted) == (
            Status.STOPPED, "NO_PROXY_AVAILABLE", Wanted.STOPPED,
        )  # fmt: skip
    await assert_sound(store)
    # with room again the operator starts it, on its own proxy if that is free
    await store.sessions.delete("new_0", keep_s=0)
    assert await store.sessions.order(without[0], "start")
    started = await store.sessions.get(without[0])
    assert started
    assert started.proxy_id == only
    await assert_sound(store)


async def test_a_full_or_bad_own_proxy_gives_way_to_another(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    session_id = await linked(store, proxy_id=first)
    state = await store.carrying.collect(session_id)
    await store.sessions.delete(session_id, keep_s=0, forget=True)
    await store.proxies.mark(first, ProxyStatus.BAD, error="x", kind="refused")
    assert (await put_back(store, session_id, state)).proxy_id == second
    assert await store.sessions.bound_proxy(PHONE) == second
    await assert_sound(store)


async def test_a_phone_that_lives_elsewhere_is_not_split(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    session_id = await linked(store, proxy_id=first)
    state = await store.carrying.collect(session_id)
    await store.sessions.delete(session_id, keep_s=0, forget=True)
    await linked(store, PHONE, session_id="other", proxy_id=second)
    assert (await put_back(store, session_id, state)).proxy_id == second
    await assert_sound(store)


async def test_no_more_sessions_of_one_phone_than_allowed(store: Store) -> None:
    await add_proxies(store, 2)
    session_id = await linked(store)
    state = await store.carrying.collect(session_id)
    await store.sessions.delete(session_id, keep_s=0)
    for n in range(4):
        await linked(store, PHONE, session_id=f"s{n}", allow_additional=True)
    with pytest.raises(errors.PhoneAlreadyRegistered):
        await put_back(store, session_id, state)
    assert await store.sessions.get(session_id) is None
    await assert_sound(store)


async def test_a_stopped_session_stays_stopped_and_an_ended_one_tells_why(store: Store) -> None:
    await add_proxies(store, 1)
    stopped, failed = await linked(store), await linked(store, OTHER_PHONE)
    await store.sessions.order(stopped, "stop", reason="STOP_ORDERED")
    await store.sessions.end(failed, reason="CRASH_LOOP")
    states = {i: await store.carrying.collect(i) for i in (stopped, failed)}
    await store.connection.call("FLUSHALL")
    for session_id, state in states.items():
        await put_back(store, session_id, state)
    found = {s.session_id: (s.status, s.reason, s.wanted) for s in await store.sessions.all()}
    assert found == {
        stopped: (Status.STOPPED, "STOP_ORDERED", Wanted.STOPPED),
        failed: (Status.FAILED, "CRASH_LOOP", Wanted.STOPPED),
    }


async def test_before_puts_back_what_was_there(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    session_id = await linked(store, proxy_id=first)
    old = await store.carrying.collect(session_id)
    await store.sessions.move(session_id, reason="x", to_proxy=second)
    live = await store.carrying.collect(session_id)
    await put_back(store, session_id, old)
    await put_back(store, session_id, live, token="t.undo", mode="before")
    session = await store.sessions.get(session_id)
    assert session
    assert (session.proxy_id, session.reason) == (second, "RESTORE_UNDONE")
    assert await store.sessions.bound_proxy(PHONE) == second
    await assert_sound(store)


# moving to another server ----------------------------------------------------------------------------------------
async def test_a_moved_session_frees_its_slot_and_never_starts_again(store: Store) -> None:
    (only,) = await add_proxies(store, 1)
    session_id = await linked(store)
    assert await store.carrying.mark_moved(session_id)
    assert not await store.carrying.mark_moved(session_id)
    session = await store.sessions.get(session_id)
    assert session
    assert (session.status, session.reason, session.proxy_id) == (Status.STOPPED, "MOVED", "")
    for order in ("start", "restart"):
        with pytest.raises(errors.SessionMoved):
            await store.sessions.order(session_id, order)
    proxy = await store.proxies.get(only)
    assert proxy
    assert not proxy.sessions
    await assert_sound(store)


async def test_an_import_needs_a_free_name_and_a_free_phone(store: Store) -> None:
    await add_proxies(store, 1)
    session_id = await linked(store)
    state = await store.carrying.collect(session_id)
    with pytest.raises(errors.SessionExists):
        await put_back(store, session_id, state, mode="import")
    with pytest.raises(errors.PhoneAlreadyRegistered):
        await put_back(store, "elsewhere", {**state, "record": {**state["record"], "id": "elsewhere"}}, mode="import")
    await assert_sound(store)


async def test_an_import_brings_a_moved_session_back(store: Store) -> None:
    await add_proxies(store, 1)
    session_id = await linked(store)
    state = await store.carrying.collect(session_id)
    await store.carrying.mark_moved(session_id)
    assert (await put_back(store, session_id, state, mode="import")).placed
    assert await store.sessions.order(session_id, "restart")


async def test_a_proxy_given_by_hand_wins_and_is_added(store: Store) -> None:
    await add_proxies(store, 1)
    session_id = await linked(store)
    state = await store.carrying.collect(session_id)
    await store.connection.call("FLUSHALL")
    wanted = address(7)
    placed = await put_back(
        store, session_id, state, mode="import", proxy_id=wanted.proxy_id, proxy_address=wanted
    )  # fmt: skip
    assert placed.proxy_id == wanted.proxy_id
    assert await store.sessions.bound_proxy(PHONE) == wanted.proxy_id
    # the other server's proxy did not come along
    assert [p.proxy_id for p in await store.proxies.all()] == [wanted.proxy_id]


async def test_a_full_or_unknown_proxy_given_by_hand_is_refused_and_nothing_is_written(store: Store) -> None:
    (only,) = await add_proxies(store, 1)
    session_id = await linked(store)
    state = await store.carrying.collect(session_id)
    await store.connection.call("FLUSHALL")
    with pytest.raises(errors.ProxyNotFound):
        await put_back(store, session_id, state, mode="import", proxy_id="px_nowhere")
    await add_proxies(store, 1)
    for n in range(4):
        await linked(store, f"97250000009{n}", session_id=f"s{n}")
    with pytest.raises(errors.ProxyFull):
        await put_back(store, session_id, state, mode="import", proxy_id=only)
    assert await store.sessions.get(session_id) is None
    await assert_sound(store)


# other parts -----------------------------------------------------------------------------------------------------
async def test_other_parts_return_into_an_empty_store(store: Store) -> None:
    await store.connection.call("HSET", keys.USERS(), "anna", "x", "ben", "y")
    await store.connection.call("HSET", keys.API_KEYS(), "key_1", "{}")
    await store.connection.call("HSET", keys.SUPPRESSED(), *[x for n in range(5000) for x in (f"97250{n:07}", "{}")])
    await store.connection.call("ZADD", keys.SUPPRESSED_BY_TIME(), 1794748681742, "972500000000")
    await store.connection.call("ZADD", keys.CONSENT("972500000000"), 1, "older", 2, "newest")
    await store.lanes.set_override("global", {"daily": 5})
    before = await everything(store)
    parts = await store.carrying.collect_parts()
    await store.connection.call("FLUSHALL")
    assert await store.carrying.restore_parts({**parts, "from-the-future": {"": {"x": "y"}}}) == 5007
    assert await everything(store) == before
    assert await store.carrying.restore_parts(parts) == 0


async def everything(store: Store) -> list[object]:
    call = store.connection.call
    return [
        await call("HGETALL", keys.USERS()), await call("HGETALL", keys.API_KEYS()),
        await call("HLEN", keys.SUPPRESSED()), await call("ZSCORE", keys.SUPPRESSED_BY_TIME(), "972500000000"),
        await call("ZRANGE", keys.CONSENT("972500000000"), 0, -1), await store.lanes.override("global"),
    ]  # fmt: skip


async def test_what_was_taken_away_since_does_not_come_back_but_opt_outs_do(store: Store) -> None:
    await store.connection.call("HSET", keys.USERS(), "anna", "old", "removed", "old")
    await store.connection.call("HSET", keys.API_KEYS(), "key_1", "old", "revoked", "old")
    await store.connection.call("HSET", keys.SUPPRESSED(), "972500000001", "old")
    parts = await store.carrying.collect_parts()
    await store.connection.call("FLUSHALL")
    await store.connection.call("HSET", keys.USERS(), "anna", "new")
    await store.connection.call("HSET", keys.API_KEYS(), "key_1", "new")
    await store.connection.call("HSET", keys.SUPPRESSED(), "972500000002", "new")
    await store.carrying.restore_parts(parts)
    assert await store.connection.call("HGETALL", keys.USERS()) == {"anna": "new"}
    assert await store.connection.call("HGETALL", keys.API_KEYS()) == {"key_1": "new"}
    assert await store.connection.call("HGETALL", keys.SUPPRESSED()) == {"972500000001": "old", "972500000002": "new"}


async def test_a_backup_cannot_write_any_other_key(store: Store) -> None:
    await store.carrying.restore_parts({"globalLimits": {"worker_1": '{"daily": 9999}'}, "users": {}})
    assert await store.lanes.override("worker_1") is None
