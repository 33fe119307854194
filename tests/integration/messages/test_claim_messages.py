"""A worker takes messages out of its outbox: with a lease, a fencing token, and only while it may send."""

from __future__ import annotations

import asyncio

import pytest

from support.messages import ANNA, BERT, CARL, PHONE, accepted, ack, claim, linked, nack, plan, record, release, state
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.errors import LeaseLost
from wa_orchestrator.store import Store, keys


async def test_a_claim_hands_out_with_a_lease(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    (handed,) = await store.outbox.claim(session, most=5)
    assert (handed["messageId"], handed["attempt"], handed["known"]) == (message_id, 1, False)
    assert handed["expiresAt"] == clock.now_ms() + 120_000
    assert await state(store, message_id) == "claimed"


async def test_the_token_grows_with_every_claim(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    for to in (ANNA, BERT, CARL):
        await accepted(store, session_id=session, to=to)
    await release(store)
    tokens = [m["token"] for m in await store.outbox.claim(session, most=2)]
    tokens += [m["token"] for m in await store.outbox.claim(session, most=2)]
    clock.advance(seconds=121)
    await store.outbox.requeue_expired()
    tokens += [m["token"] for m in await store.outbox.claim(session, most=3)]
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 6


async def test_no_more_than_asked_for_and_each_to_one_only(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    for n in range(20):
        await accepted(store, session_id=session, to=f"97252{n:07}")
    await release(store)
    found = await asyncio.gather(*(store.outbox.claim(session, most=3) for _ in range(10)))
    ids = [m["messageId"] for handed in found for m in handed]
    assert max(len(handed) for handed in found) == 3
    assert len(ids) == len(set(ids)) == 20


async def test_another_sessions_outbox_is_not_touched(store: Store, clock: ManualClock) -> None:
    session, other = await linked(store), await linked(store)
    await plan(store, clock)
    await accepted(store, session_id=session)
    await release(store)
    assert await claim(store, other) == []
    assert len(await claim(store, session)) == 1


async def test_after_the_hours_it_goes_back_and_does_not_burn_the_day(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=1, closes_at=clock.now_ms() + 60_000)
    message_id = await accepted(store, session_id=session)
    await release(store)
    clock.advance(seconds=56)
    assert await claim(store, session) == []
    assert await state(store, message_id) == "queued"
    clock.advance(seconds=600)
    await plan(store, clock, daily=1)
    assert await release(store) == 1
    assert await claim(store, session) == [message_id]


async def test_a_lease_ends_with_the_hours(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, closes_at=clock.now_ms() + 30_000)
    await accepted(store, session_id=session)
    await release(store)
    (handed,) = await store.outbox.claim(session, most=1)
    assert handed["expiresAt"] == clock.now_ms() + 30_000


async def test_while_whatsapp_limits_the_phone_nothing_is_handed_out(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    for to in (ANNA, BERT):
        await accepted(store, session_id=session, to=to)
    await release(store)
    (first,) = await store.outbox.claim(session, most=1)
    await nack(store, first, session, code="RATE_LIMITED", kind="limited", block_ms=60_000)
    assert await claim(store, session) == []
    clock.advance(seconds=60)
    assert await release(store) == 2


async def test_an_expired_message_is_ended_instead(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session, expires_at=clock.now_ms() + 1000)
    await release(store)
    clock.advance(seconds=1)
    assert await claim(store, session) == []
    assert await state(store, message_id) == "expired"
    assert await store.lanes.sizes(PHONE) == (0, 0)


async def test_a_known_recipient_is_not_checked_again(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    first, second = await accepted(store, session_id=session), await accepted(store, session_id=session)
    await release(store)
    assert await claim(store, session) == [first]
    await ack(store, first, session)
    await release(store)
    (handed,) = await store.outbox.claim(session, most=1)
    assert (handed["messageId"], handed["known"]) == (second, True)
    assert (await record(store, second))["outboxOf"] == session


async def test_a_forgotten_message_is_dropped_from_the_outbox(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await store.connection.call("ZADD", keys.SESSION_OUTBOX(session), 1, "msg_gone")
    assert await claim(store, session) == []
    assert not await store.connection.call("EXISTS", keys.SESSION_OUTBOX(session))


async def test_a_worker_that_comes_back_empty_handed_gets_it_at_once(store: Store, clock: ManualClock) -> None:
    """Its predecessor died with the message in hand, or the answer to the claim was lost on the way."""
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    (first,) = await store.outbox.claim(session, most=1)
    assert await store.outbox.claim(session, most=1) == [], "it is with the worker"
    (again,) = await store.outbox.claim(session, most=1, empty_handed=True)
    assert (again["messageId"], again["waMessageId"]) == (message_id, first["waMessageId"])
    assert again["token"] > first["token"]
    assert again["attempt"] == 1, "a worker's death is no attempt of the message"
    assert again["expiresAt"] == clock.now_ms() + 120_000
    # the first lease is over: its late no means nothing, its late yes is a fact
    with pytest.raises(LeaseLost):
        await nack(store, first, session)
    assert not await ack(store, message_id, session)
    assert await state(store, message_id) == "sent"
    assert await store.outbox.claim(session, most=1, empty_handed=True) == []


async def test_empty_hands_say_nothing_about_another_session(store: Store, clock: ManualClock) -> None:
    session, other = await linked(store), await linked(store)  # of one phone
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    assert await claim(store, session) == [message_id]
    assert await store.outbox.claim(other, most=1, empty_handed=True) == []
    assert await state(store, message_id) == "claimed"


async def test_a_message_that_kills_its_workers_has_to_wait_for_its_lease(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    given = 0
    for _ in range(10):
        given += len(await store.outbox.claim(session, most=1, empty_handed=True))
    assert given == 4, "once as usual, three times at once"
    clock.advance(seconds=121)
    await store.outbox.requeue_expired()
    assert await claim(store, session) == [message_id]
