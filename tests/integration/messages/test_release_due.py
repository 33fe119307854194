"""From the queue into the outbox: each limit alone, all together, and what must not hold others up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.messages import (
    ANNA,
    BERT,
    CARL,
    OTHER_PHONE,
    PHONE,
    accepted,
    ack,
    claim,
    lane_field,
    linked,
    plan,
    record,
    release,
    set_status,
    state,
    unlinked,
)
from support.registry import connect
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store, keys


async def many(store: Store, session: str, count: int, **wanted: Any) -> list[str]:
    """Messages to as many recipients."""
    return [await accepted(store, session_id=session, to=f"9725200{n:05}", defer=True, **wanted) for n in range(count)]


async def send(store: Store, session: str) -> int:
    """Releases, claims and acknowledges what may go now."""
    await release(store)
    sent = await claim(store, session)
    for message_id in sent:
        await ack(store, message_id, session)
    return len(sent)


async def test_without_delays_a_batch_goes_at_once_but_not_more_than_fits(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    await many(store, session, 50)
    assert await release(store) == 32
    assert await release(store) == 0
    held = await claim(store, session)
    for message_id in held[:3]:
        await ack(store, message_id, session)
    assert await release(store) == 3


async def test_the_day_limit_is_kept_alone(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=3)
    await many(store, session, 5)
    assert await send(store, session) == 3
    clock.advance(seconds=3600)
    assert await send(store, session) == 0
    assert await lane_field(store, "dayCount") == "3"


async def test_the_minute_limit_is_kept_alone(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, per_minute=2)
    await many(store, session, 5)
    assert await send(store, session) == 2
    clock.advance(seconds=59.999)
    assert await send(store, session) == 0
    clock.advance(seconds=0.001)
    assert await send(store, session) == 2


async def test_the_minute_counts_from_the_send_not_from_the_release(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, per_minute=2)
    await many(store, session, 4)
    await release(store)
    held = await claim(store, session)
    clock.advance(seconds=59)
    for message_id in held:
        await ack(store, message_id, session)
    clock.advance(seconds=2)
    assert await release(store) == 0
    clock.advance(seconds=58)
    assert await release(store) == 2


async def test_delays_lie_between_their_ends_and_count_from_the_send(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, min_delay_ms=2000, max_delay_ms=4000)
    await many(store, session, 3)
    await release(store)
    held = await claim(store, session)
    clock.advance(seconds=60)  # a slow worker
    assert await release(store) == 0
    await ack(store, held[0], session)
    due = float(await lane_field(store, "nextDue") or 0) - clock.now_ms()
    assert 2000 <= due <= 4000
    clock.advance(seconds=1.999)
    assert await release(store) == 0
    clock.advance(seconds=2.002)
    assert await release(store) == 1


async def test_the_burst_pause_is_kept_alone(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, burst_count=3, burst_pause_ms=30_000)
    await many(store, session, 7)
    assert await release(store) == 3
    held = await claim(store, session)
    clock.advance(seconds=20)
    for message_id in held:
        await ack(store, message_id, session)
    clock.advance(seconds=29.999)
    assert await release(store) == 0
    clock.advance(seconds=0.001)
    assert await release(store) == 3


async def test_a_natural_gap_begins_a_new_burst(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, burst_count=3, burst_pause_ms=30_000)
    await many(store, session, 2)
    assert await send(store, session) == 2
    clock.advance(seconds=30)
    await many(store, session, 3)
    assert await send(store, session) == 3


async def test_nothing_leaves_outside_the_hours_or_just_before_their_end(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    now = clock.now_ms()
    await plan(store, clock, opens_at=now + 1000, closes_at=now + 61_000)
    await many(store, session, 40)
    assert await release(store) == 0
    clock.advance(seconds=1)
    assert await release(store) == 32
    clock.advance(seconds=56)
    for message_id in await claim(store, session):
        await ack(store, message_id, session)
    assert await release(store) == 0


async def test_all_limits_hold_together_and_the_strictest_decides(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=9, per_minute=4, min_delay_ms=1000, max_delay_ms=1000, burst_count=3,
               burst_pause_ms=10_000)  # fmt: skip
    await many(store, session, 20)
    times = []
    for second in range(200):
        if await send(store, session):
            times.append(second)
        clock.advance(seconds=1)
    assert times == [0, 1, 2, 12, 60, 61, 62, 72, 120]


async def test_a_slowed_lane_waits_longer(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, min_delay_ms=1000, max_delay_ms=1000)
    await store.connection.call("HSET", keys.LANE(PHONE), "slow", 4)
    await many(store, session, 2)
    await release(store)
    assert await lane_field(store, "nextDue") == str(clock.now_ms() + 4000)


@pytest.mark.parametrize("count", [3, 30, 120])
async def test_messages_of_a_disconnected_session_do_not_hold_up_others(
    store: Store, clock: ManualClock, count: int
) -> None:
    away, here = await linked(store), await linked(store)
    await plan(store, clock)
    await set_status(store, away, Status.RECONNECTING)
    stuck = await many(store, away, count)
    free = await accepted(store, session_id=here, to=ANNA)
    any_of_both = await accepted(store, phone=PHONE, to=BERT)
    assert await release(store) == 2
    assert await claim(store, here) == [free, any_of_both]
    assert await state(store, stuck[0]) == "queued"
    await connect(store, away, PHONE)
    await plan(store, clock)
    assert await release(store) == min(count, 30)


async def test_a_message_left_in_the_outbox_of_a_lost_session_goes_by_another(store: Store, clock: ManualClock) -> None:
    first, second = await linked(store), await linked(store)
    await plan(store, clock, min_delay_ms=1, max_delay_ms=1)
    await set_status(store, second, Status.RECONNECTING)
    message_id = await accepted(store, phone=PHONE)
    assert await release(store) == 1
    await set_status(store, first, Status.LOGGED_OUT)
    await connect(store, second, PHONE)
    await plan(store, clock, min_delay_ms=1, max_delay_ms=1)
    clock.advance(seconds=15)
    await store.outbox.wake_retries()
    assert await release(store) == 1
    assert await claim(store, second) == [message_id]


async def test_what_a_worker_may_have_sent_waits_for_that_worker(store: Store, clock: ManualClock) -> None:
    first, second = await linked(store), await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, phone=PHONE)
    await release(store)
    holder = first if await claim(store, first) else second
    if holder == second:
        assert await claim(store, second) == [message_id]
    await set_status(store, holder, Status.RECONNECTING)
    clock.advance(seconds=121)
    await store.outbox.requeue_expired()
    clock.advance(seconds=15)
    await store.outbox.wake_retries()
    await release(store)
    other = second if holder == first else first
    assert await claim(store, other) == []


@pytest.mark.parametrize("count", [1, 70])
async def test_messages_of_a_deleted_session_fail_and_say_why(store: Store, clock: ManualClock, count: int) -> None:
    session, other = await linked(store), await linked(store)
    await plan(store, clock)
    ids = [*await many(store, session, count), await accepted(store, session_id=session, to="972520000000")]
    free = await accepted(store, phone=PHONE, to=CARL)
    await store.sessions.delete(session, keep_s=60)
    await plan(store, clock)
    assert await release(store) == 1
    assert await claim(store, other) == [free]
    found = [await record(store, i) for i in ids]
    assert {(m["state"], m["reason"]) for m in found} == {("failed", "SESSION_DELETED")}
    assert len(await store.messages.dead(limit=500)) == len(ids)


async def test_a_session_linked_to_another_phone_takes_its_messages_and_their_pacing_along(
    store: Store, clock: ManualClock
) -> None:
    session = await linked(store)
    await plan(store, clock)
    await plan(store, clock, OTHER_PHONE, daily=1)
    in_outbox = await accepted(store, session_id=session, to=ANNA)
    of_the_phone = await accepted(store, phone=PHONE, to=CARL)
    await release(store)
    waiting = await accepted(store, session_id=session, to=BERT, expires_at=clock.now_ms() + 60_000)
    await store.connection.call("HSET", keys.SESSION(session), "expectedPhone", "", "jid", "")
    assert await connect(store, session, OTHER_PHONE) in {"bound", "moved"}
    await set_status(store, session, Status.CONNECTED)
    assert await claim(store, session) == []
    await plan(store, clock)
    await plan(store, clock, OTHER_PHONE, daily=1)
    assert await release(store) + await release(store) == 1
    assert len(await claim(store, session)) == 1
    lanes = [(await record(store, i))["lane"] for i in (in_outbox, waiting, of_the_phone)]
    assert lanes == [OTHER_PHONE, OTHER_PHONE, PHONE]
    assert await store.connection.call("ZSCORE", keys.MESSAGES_EXPIRING(), waiting)


async def test_a_session_made_anew_without_a_phone_does_not_swallow_messages(store: Store, clock: ManualClock) -> None:
    session = await linked(store, session_id="again")
    await plan(store, clock, opens_at=clock.now_ms() + 1000)
    message_id = await accepted(store, session_id=session)
    await store.sessions.delete(session, keep_s=60)
    await unlinked(store, session_id="again")
    clock.advance(seconds=2)
    await plan(store, clock)
    assert await release(store) == 0
    assert (await record(store, message_id))["lane"] == PHONE
    assert await state(store, message_id) == "queued"


async def test_an_expired_message_is_not_released(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session, expires_at=clock.now_ms() + 1000)
    clock.advance(seconds=1)
    assert await release(store) == 0
    assert await state(store, message_id) == "expired"


async def test_several_dispatchers_release_each_message_once(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=20)
    await many(store, session, 40)
    released = await asyncio.gather(*(store.lanes.release_due(lanes=10) for _ in range(10)))
    assert sum(r.moved for r in released) == 20
    assert len(await claim(store, session)) == 20


async def test_a_blocked_lane_waits_until_whatsapp_allows(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    await store.connection.call("HSET", keys.LANE(PHONE), "blockedUntil", clock.now_ms() + 5000)
    await accepted(store, session_id=session)
    assert await release(store) == 0
    clock.advance(seconds=5)
    assert await release(store) == 1
