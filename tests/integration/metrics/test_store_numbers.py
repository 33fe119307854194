"""What the store tells about the whole installation, on Valkey and on Redis."""

from __future__ import annotations

import time

import pytest

from support.messages import ANNA, BERT, OTHER_PHONE, PHONE, accepted, linked, plan, set_status, unlinked
from support.registry import add_proxies
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.sessions import EventEffect, EventNumber


async def test_an_empty_store_counts_nothing(store: Store) -> None:
    numbers = await store.numbers.read()
    assert numbers.sessions == {}
    assert numbers.proxies == {}
    assert (numbers.free_slots, numbers.jobs, numbers.dead, numbers.journal, numbers.leaders) == (0, 0, 0, 0, 0)
    assert (numbers.totals, numbers.failed) == ({}, {})


async def test_sessions_are_counted_by_state_and_proxies_by_free_slots(store: Store) -> None:
    await add_proxies(store, 2)
    await linked(store, PHONE)
    away = await linked(store, OTHER_PHONE)
    await set_status(store, away, Status.DISCONNECTED)
    await unlinked(store)
    bad = (await store.proxies.all())[1]
    before = await store.numbers.read()
    assert before.sessions == {"connected": 1, "disconnected": 1, "pending": 1}
    assert before.proxies == {"active": 2}
    assert before.free_slots == 2 * 4 - 3
    await store.proxies.mark(bad.proxy_id, ProxyStatus.BAD, error="refused")
    after = await store.numbers.read()
    assert after.proxies == {"active": 1, "bad": 1}
    assert after.free_slots == 4 - len([s for s in await store.sessions.all() if s.proxy_id != bad.proxy_id])


async def test_a_phone_with_two_sessions_is_one_lane(store: Store, clock: ManualClock) -> None:
    await linked(store, PHONE)
    await linked(store, PHONE)
    for to in (ANNA, BERT):
        await accepted(store, to=to, phone=PHONE)
    await accepted(store)  # nobody named as its sender
    numbers = await store.numbers.read()
    assert (numbers.lanes_waiting, numbers.lanes_under_way, numbers.jobs) == (2, 0, 1)
    assert numbers.lanes_due == 1
    clock.advance(seconds=7)
    assert (await store.numbers.read()).oldest_due_s == pytest.approx(7)


async def test_messages_are_counted_through_to_their_end(store: Store, clock: ManualClock) -> None:
    session_id = await linked(store, PHONE)
    await plan(store, clock)
    first, second, third = [await accepted(store, to=to, phone=PHONE) for to in (ANNA, BERT, "972523333333")]
    clock.advance(seconds=0.4)
    released = await store.lanes.release_due(lanes=10)
    assert released.moved == 3
    assert released.late_ms == [400]
    claimed = {m["messageId"]: m["token"] for m in await store.outbox.claim(session_id, most=2)}
    held = await store.numbers.read()
    assert (held.lanes_under_way, held.claimed) == (3, 2)
    await store.outbox.ack(first, session_id=session_id, sent_at=clock.now_ms())
    await store.outbox.nack(
        second, session_id=session_id, token=claimed[second], code="NOT_ON_WHATSAPP", message="no", retryable=False,
        retry_after_ms=None, kind="refused",
    )  # fmt: skip
    await store.messages.cancel(third, reason="CANCELLED_BY_CLIENT")
    numbers = await store.numbers.read()
    assert numbers.totals == {"accepted": 3, "sent": 1, "failed": 1, "cancelled": 1}
    assert numbers.failed == {"NOT_ON_WHATSAPP": 1}
    assert (numbers.dead, numbers.claimed, numbers.lanes_under_way) == (1, 0, 0)


async def test_a_worker_cannot_invent_ever_more_kinds_of_failures(store: Store, clock: ManualClock) -> None:
    session_id = await linked(store, PHONE)
    await plan(store, clock)
    codes = [f"MADE_UP_{n}" for n in range(70)] + ["lower case", "X" * 60]
    for number, code in enumerate(codes):
        message_id = await accepted(store, to=f"9725211{number:05d}", phone=PHONE)
        await store.connection.call("HDEL", keys.LANE(PHONE), "slow", "failures", "nextDue")
        await store.connection.call("ZADD", keys.LANES_DUE(), clock.now_ms(), PHONE)
        await store.lanes.release_due(lanes=10)
        (message,) = await store.outbox.claim(session_id, most=1)
        await store.outbox.nack(
            message_id, session_id=session_id, token=message["token"], code=code, message="", retryable=False,
            retry_after_ms=None, kind="refused",
        )  # fmt: skip
    failed = (await store.numbers.read()).failed
    assert sum(failed.values()) == len(codes)
    assert len(failed) <= 61
    assert failed["OTHER"] == 12


async def test_memory_counts_only_workers_that_report(store: Store, clock: ManualClock) -> None:
    await add_proxies(store, 2)
    ids = [await unlinked(store) for _ in range(3)]
    for session_id, rss in zip(ids, (50_000_000, 90_000_000, 0), strict=True):
        ping = EventEffect(quiet=True, fields={"lastPing": clock.now_ms(), "rssBytes": rss} if rss else {})
        number = EventNumber(at=clock.now_ms() + 1)
        await store.sessions.apply_event(session_id, number, kind="PING", effect=ping, data={})
    numbers = await store.numbers.read()
    assert (numbers.workers_reporting, numbers.worker_memory_sum, numbers.worker_memory_max) == (
        2,
        140_000_000,
        90_000_000,
    )
    clock.advance(seconds=181)
    assert (await store.numbers.read()).workers_reporting == 0


async def test_ten_thousand_sessions_cost_little(valkey_store: Store, clock: ManualClock) -> None:
    """Each of the short reads must not hold the store for long; together they stay far below a scrape's interval."""
    store, count = valkey_store, 10_000
    call = store.connection.ask
    waiting = []
    for number in range(count):
        phone = f"9725{number:08d}"
        record = (
            "id",
            f"s{number}",
            "status",
            "connected",
            "wanted",
            "running",
            "phone",
            phone,
            "rssBytes",
            60_000_000,
        )
        waiting.append(call("HSET", keys.SESSION(f"s{number}"), *record, "lastPing", clock.now_ms()))
        waiting.append(call("ZADD", keys.SESSIONS_ALL(), number, f"s{number}"))
        waiting.append(call("HSET", keys.LANE(phone), "nextDue", 1))
        waiting.append(call("SADD", keys.QUEUE_SIZE(phone), "msg_1"))
    for one in waiting:
        await one
    await store.numbers.read()  # the scripts are known from here on
    await store.connection.call("CONFIG", "RESETSTAT")
    began = time.process_time()
    numbers = await store.numbers.read()
    own_s = time.process_time() - began
    assert numbers.sessions == {"connected": count}
    assert numbers.lanes_waiting == count
    assert numbers.worker_memory_sum == count * 60_000_000
    stats = await store.connection.call("INFO", "commandstats")
    script = stats["cmdstat_evalsha"]
    print(f"10,000 sessions: {script['calls']} calls, {script['usec_per_call']:.0f} µs each; own {own_s * 1000:.1f} ms")
    assert script["calls"] == 51
    assert script["usec_per_call"] < 20_000, "usual: about 2,000"
