"""What time brings about: leases that ran out, retries, expiry; and cancelling, driving again, deleting."""

from __future__ import annotations

import asyncio

import pytest

from support.messages import (
    ANNA,
    BERT,
    CARL,
    DAY_MS,
    PHONE,
    accepted,
    ack,
    claim,
    dispatcher,
    lane_field,
    leftovers,
    linked,
    nack,
    plan,
    record,
    release,
    set_status,
    settings,
    state,
)
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.dispatcher.housekeeping import MessageHousekeeping
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store, keys


async def woken_by(store: Store, clock: ManualClock) -> list[str]:
    """Which sessions the next look wakes."""
    async with store.connection.client.pubsub(ignore_subscribe_messages=True) as channel:
        await channel.subscribe(keys.WAKE())
        await channel.get_message(timeout=1)
        await store.outbox.wake_retries()
        found = []
        while (message := await channel.get_message(timeout=0.05)) is not None:
            found.append(str(message["data"]))
        return found


# leases ----------------------------------------------------------------------------------------------------------
async def test_a_lease_that_ran_out_brings_the_message_back_with_its_id(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    await accepted(store, session_id=session)
    await release(store)
    (first,) = await store.outbox.claim(session, most=1)
    clock.advance(seconds=119.999)
    assert await store.outbox.requeue_expired() == 0
    clock.advance(seconds=0.001)
    assert await store.outbox.requeue_expired() == 1
    (second,) = await store.outbox.claim(session, most=1)
    assert second["waMessageId"] == first["waMessageId"]
    assert second["token"] > first["token"]
    assert "lease_ended" in (await record(store, first["messageId"]))["story"]


async def test_a_message_nobody_ever_answers_for_fails_in_the_end(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    for _ in range(20):
        assert await claim(store, session) == [message_id]
        clock.advance(seconds=120)
        await store.outbox.requeue_expired()
    found = await record(store, message_id)
    assert (found["state"], found["reason"].split(":")[0]) == ("failed", "NO_ANSWER")


# retries ---------------------------------------------------------------------------------------------------------
async def test_each_of_two_retries_of_a_session_is_woken_in_its_time(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    for to in (ANNA, BERT):
        await accepted(store, session_id=session, to=to)
    await release(store)
    soon, late = await store.outbox.claim(session, most=2)
    await nack(store, soon, session, retry_after_ms=1000)
    await nack(store, late, session, retry_after_ms=10_000)
    assert await woken_by(store, clock) == []
    clock.advance(seconds=1)
    assert await woken_by(store, clock) == [session]
    await claim(store, session)
    clock.advance(seconds=9)
    assert await woken_by(store, clock) == [session]
    assert await claim(store, session) == [late["messageId"]]


async def test_an_outbox_nobody_comes_for_is_woken_again_and_forgotten_when_empty(
    store: Store, clock: ManualClock
) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    clock.advance(seconds=15)
    assert await woken_by(store, clock) == [session]
    await claim(store, session)
    await ack(store, message_id, session)
    clock.advance(seconds=15)
    assert await woken_by(store, clock) == []
    assert not await store.connection.call("EXISTS", keys.OUTBOX_RETRIES())


# expiry ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("where", ["accepted", "queued", "outbox"])
async def test_a_message_expires_wherever_it_waits(store: Store, clock: ManualClock, where: str) -> None:
    session = await linked(store)
    await plan(store, clock)
    sender = {} if where == "accepted" else {"session_id": session}
    message_id = await accepted(store, expires_at=clock.now_ms() + 5000, **sender)
    following = await accepted(store, **sender)
    if where == "outbox":
        await release(store)
    assert await state(store, message_id) == where
    clock.advance(seconds=4.999)
    assert await store.messages.expire_due() == 0
    clock.advance(seconds=0.001)
    assert await store.messages.expire_due() == 1
    found = await record(store, message_id)
    assert (found["state"], found["reason"]) == ("expired", "EXPIRED")
    if where != "accepted":
        await release(store)
        assert await claim(store, session) == [following]


async def test_what_a_worker_has_does_not_expire_in_its_hands(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session, expires_at=clock.now_ms() + 1000)
    await release(store)
    await claim(store, session)
    clock.advance(seconds=60)
    assert await store.messages.expire_due() == 0
    await ack(store, message_id, session)
    assert await state(store, message_id) == "sent"
    assert await leftovers(store) == []


# cancelling ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("where", ["accepted", "planned", "queued", "behind", "outbox"])
async def test_a_message_no_worker_has_can_be_cancelled(store: Store, clock: ManualClock, where: str) -> None:
    session = await linked(store)
    await plan(store, clock, daily=5)
    if where == "behind":
        await accepted(store, session_id=session)
    wanted = {"accepted": {}, "planned": {"schedule_at": clock.now_ms() + DAY_MS}}.get(where, {"session_id": session})
    message_id = await accepted(store, **wanted)
    if where in {"behind", "outbox"}:
        await release(store)
    assert await store.messages.cancel(message_id, reason="CANCELLED_BY_CLIENT") == "cancelled"
    assert await store.messages.cancel(message_id, reason="again") == "cancelled"
    found = await record(store, message_id)
    assert found["reason"] == "CANCELLED_BY_CLIENT"
    assert await lane_field(store, "dayCount") == ("1" if where == "behind" else "0")
    assert message_id not in await claim(store, session)
    assert (await store.messages.counts())["today"]["cancelled"] == 1


async def test_a_message_with_its_worker_or_ended_cannot_be_cancelled(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    await claim(store, session)
    for expected in ("claimed", "sent"):
        with pytest.raises(errors.MessageUnderWay) as refused:
            await store.messages.cancel(message_id, reason="")
        assert refused.value.details == {"state": expected}
        await ack(store, message_id, session)
    with pytest.raises(errors.MessageNotFound):
        await store.messages.cancel("msg_nothing", reason="")


# driving again ---------------------------------------------------------------------------------------------------
async def test_a_failed_message_goes_again_with_the_same_id(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session, expires_at=clock.now_ms() + DAY_MS)
    await release(store)
    (first,) = await store.outbox.claim(session, most=1)
    await nack(store, first, session, retryable=False)
    assert await store.messages.redrive(message_id) == "queued"
    assert await store.messages.dead(limit=10) == []
    assert await store.connection.call("PTTL", keys.MESSAGE(message_id)) == -1
    assert await store.connection.call("ZSCORE", keys.MESSAGES_EXPIRING(), message_id)
    await release(store)
    (second,) = await store.outbox.claim(session, most=1)
    assert (second["waMessageId"], second["attempt"]) == (first["waMessageId"], 1)
    await ack(store, message_id, session)
    found = await record(store, message_id)
    assert (found["state"], found["reason"]) == ("sent", "")


async def test_only_a_failed_message_is_driven_again(store: Store) -> None:
    message_id = await accepted(store)
    with pytest.raises(errors.MessageNotFailed):
        await store.messages.redrive(message_id)
    with pytest.raises(errors.MessageNotFound):
        await store.messages.redrive("msg_nothing")


async def test_a_failed_message_without_a_sender_is_routed_anew(store: Store, clock: ManualClock) -> None:
    message_id = await accepted(store)
    await store.lanes.route([{"id": message_id, "fail": "SESSION_DELETED"}])
    assert await store.messages.redrive(message_id) == "accepted"
    assert len(await store.lanes.due_jobs(now_ms=clock.now_ms(), limit=5)) == 1


# receipts --------------------------------------------------------------------------------------------------------
async def test_receipts_only_move_forward(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    await claim(store, session)
    await ack(store, message_id, session)

    async def receipt(status: str) -> str:
        return await store.messages.receipt(message_id, session_id=session, status=status, at=clock.now_ms())

    outcomes = [await receipt(s) for s in ("delivered", "delivered", "read", "delivered", "played", "read")]
    assert outcomes == ["moved", "known", "moved", "known", "moved", "known"]
    assert await state(store, message_id) == "played"
    assert await ack(store, message_id, session)  # known
    assert await receipt("error") == "known"
    today = (await store.messages.counts())["today"]
    assert today == {"accepted": 1, "sent": 1, "delivered": 1, "read": 1, "played": 1}


async def test_a_receipt_that_overtakes_the_ack_counts_as_sent_and_keeps_the_distance(
    store: Store, clock: ManualClock
) -> None:
    session = await linked(store)
    await plan(store, clock, min_delay_ms=5000, max_delay_ms=5000)
    message_id = await accepted(store, session_id=session, to=ANNA)
    await accepted(store, session_id=session, to=BERT)
    await release(store)
    await claim(store, session)
    clock.advance(seconds=60)
    outcome = await store.messages.receipt(message_id, session_id=session, status="delivered", at=clock.now_ms())
    assert outcome == "moved"
    assert await release(store) == 0
    clock.advance(seconds=5)
    assert await release(store) == 1
    assert await ack(store, message_id, session)
    assert (await store.messages.counts())["today"]["sent"] == 1


async def test_a_receipt_after_failure_takes_the_reason_away(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    (handed,) = await store.outbox.claim(session, most=1)
    await nack(store, handed, session, retryable=False)
    await store.messages.receipt(message_id, session_id=session, status="delivered", at=5)
    found = await record(store, message_id)
    assert (found["state"], found["reason"]) == ("delivered", "")
    assert await store.messages.dead(limit=5) == []


async def test_an_error_receipt_fails_a_sent_message(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    await claim(store, session)
    await ack(store, message_id, session)
    outcome = await store.messages.receipt(message_id, session_id=session, status="error", at=5, error="479")
    found = await record(store, message_id)
    assert (outcome, found["state"], found["reason"]) == ("moved", "failed", "479")


async def test_a_foreign_or_unknown_receipt_changes_nothing(store: Store, clock: ManualClock) -> None:
    session, other = await linked(store), await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    for message, who in ((message_id, other), ("msg_nothing", session)):
        assert await store.messages.receipt(message, session_id=who, status="read", at=1) == "unknown"
    assert await state(store, message_id) == "outbox"


# deleting --------------------------------------------------------------------------------------------------------
async def test_deleting_a_session_gives_its_outbox_to_the_other_one(store: Store, clock: ManualClock) -> None:
    session, other = await linked(store), await linked(store)
    await plan(store, clock)
    await set_status(store, other, Status.RECONNECTING)
    own = await accepted(store, session_id=session, to=ANNA)
    free = await accepted(store, phone=PHONE, to=BERT)
    held = await accepted(store, phone=PHONE, to=CARL)
    await release(store)
    await store.connection.call("ZADD", keys.SESSION_OUTBOX(session), 1, held)
    assert await claim(store, session, most=1) == [held]
    await set_status(store, other, Status.CONNECTED)
    await store.lanes.set_override(session, {"daily": 1})
    await store.sessions.delete(session, keep_s=60)
    await plan(store, clock)
    await release(store)
    assert await claim(store, other) == [free]
    await ack(store, free, other)
    assert (await record(store, own))["reason"] == "SESSION_DELETED"
    clock.advance(seconds=121)
    await store.outbox.requeue_expired()
    await release(store)
    assert await claim(store, other) == [held]
    assert await store.lanes.override(session) is None


async def test_a_deleted_sessions_limits_no_longer_count(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await linked(store)
    await store.lanes.set_override(session, {"daily": 1})
    await store.lanes.replan(PHONE)
    served = dispatcher(store, clock)
    await served.run_once()
    assert await lane_field(store, "daily") == "1"
    await store.sessions.delete(session, keep_s=60)
    await served.run_once()
    assert await lane_field(store, "daily") == "20"


async def test_a_session_that_joins_a_phone_brings_its_limits(store: Store, clock: ManualClock) -> None:
    await linked(store)
    served = dispatcher(store, clock)
    await served.run_once()
    await store.lanes.set_override("joining", {"daily": 2})
    await linked(store, session_id="joining")
    await served.run_once()
    assert await lane_field(store, "daily") == "2"


# the end ---------------------------------------------------------------------------------------------------------
async def test_when_everything_ended_nothing_is_left_behind(store: Store, clock: ManualClock) -> None:
    session, other = await linked(store), await linked(store)
    keeping = MessageHousekeeping(store=store, settings=settings(), clock=clock)
    await plan(store, clock, daily=100, per_minute=100)
    for number in range(24):
        await accepted(store, session_id=(session, other, "")[number % 3], to=(ANNA, BERT, CARL)[number % 3],
                       expires_at=clock.now_ms() + 60_000 if number % 5 == 0 else None)  # fmt: skip
    jobs = await store.lanes.due_jobs(now_ms=clock.now_ms(), limit=50)
    await store.lanes.route([{"id": j.message_id, "lane": PHONE} for j in jobs])
    for number in range(40):
        await release(store)
        for message in [*await store.outbox.claim(session, most=2), *await store.outbox.claim(other, most=2)]:
            holder = (await record(store, message["messageId"]))["outboxOf"]
            if number % 4 == 3 and number < 20:
                await nack(store, message, holder, retryable=number % 8 == 3)
            elif number % 4 != 2 or number > 20:
                await ack(store, message["messageId"], holder)
        clock.advance(seconds=31)
        await keeping.run_once()
    clock.advance(seconds=86_400)
    await keeping.run_once()
    await asyncio.gather(*(dispatcher(store, clock).run_once() for _ in range(2)))
    assert await leftovers(store) == []
    assert await store.lanes.sizes(PHONE) == (0, 0)
    clock.advance(seconds=60)
    await keeping.run_once()
    await dispatcher(store, clock).run_once()
    for gone in (keys.OUTBOX_RETRIES(), keys.LANES_DUE(), keys.CLAIMS_EXPIRING(), keys.MESSAGES_EXPIRING()):
        assert not await store.connection.call("EXISTS", gone), gone


async def test_ended_messages_are_forgotten_after_their_time(store: Store, clock: ManualClock) -> None:
    message_id = await accepted(store)
    await store.messages.cancel(message_id, reason="x")
    kept_ms = await store.connection.call("PTTL", keys.MESSAGE(message_id))
    assert 29 * DAY_MS < kept_ms <= 30 * DAY_MS
    keeping = MessageHousekeeping(store=store, settings=settings(), clock=clock)
    clock.advance(seconds=30 * 86_400 + 1)
    await keeping.run_once()
    assert await store.messages.newest(before="", limit=10) == []
