"""Messages to one recipient keep their order; others may overtake by priority."""

from __future__ import annotations

from support.messages import ANNA, BERT, CARL, PHONE, accepted, ack, claim, linked, nack, plan, release, settings, state
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.store import Store


async def send_all(store: Store, session: str) -> list[str]:
    """Everything that can go, in the order it went."""
    sent: list[str] = []
    while True:
        await release(store)
        found = await claim(store, session)
        if not found:
            return sent
        for message_id in found:
            await ack(store, message_id, session)
            sent.append(message_id)


async def test_one_recipient_gets_its_messages_in_their_order(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    ids = [await accepted(store, session_id=session, to=ANNA) for _ in range(5)]
    assert await send_all(store, session) == ids


async def test_only_one_message_to_a_recipient_is_under_way(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    for to in (ANNA, ANNA, BERT, BERT):
        await accepted(store, session_id=session, to=to)
    assert await release(store) == 2
    assert len(await claim(store, session)) == 2


async def test_priority_decides_between_recipients(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    late = await accepted(store, session_id=session, to=ANNA, priority=3)
    usual = await accepted(store, session_id=session, to=BERT, priority=2)
    first = await accepted(store, session_id=session, to=CARL, priority=1)
    await plan(store, clock, min_delay_ms=1, max_delay_ms=1)
    order = []
    for _ in range(3):
        await release(store)
        (message_id,) = await claim(store, session)
        await ack(store, message_id, session)
        order.append(message_id)
        clock.advance(seconds=1)
    assert order == [first, usual, late]


async def test_priority_does_not_change_the_order_of_one_recipient(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    slow = await accepted(store, session_id=session, priority=3)
    urgent = await accepted(store, session_id=session, priority=1)
    assert await send_all(store, session) == [slow, urgent]


async def test_a_retry_keeps_its_place(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    first = await accepted(store, session_id=session)
    second = await accepted(store, session_id=session)
    await release(store)
    (handed,) = await store.outbox.claim(session, most=10)
    await nack(store, handed, session)
    await release(store)
    assert await claim(store, session) == []
    clock.advance(seconds=2)
    assert await send_all(store, session) == [first, second]


async def test_a_failed_message_lets_the_next_one_forward(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    first = await accepted(store, session_id=session)
    second = await accepted(store, session_id=session)
    await release(store)
    (handed,) = await store.outbox.claim(session, most=10)
    assert await nack(store, handed, session, retryable=False) == "failed"
    assert await send_all(store, session) == [second]
    assert await state(store, first) == "failed"


async def test_messages_of_one_millisecond_without_a_sender_keep_their_order(store: Store, clock: ManualClock) -> None:
    """As a bulk makes them: their ids are random, so nothing but the order number tells who was first."""
    session = await linked(store)
    await plan(store, clock)
    ids = [
        await accepted(store, to=ANNA, message_id=f"msg_{9 - n}", wa_message_id=f"3EB0{9 - n}") for n in range(8)
    ]  # fmt: skip
    router = Router(store=store, settings=settings(), clock=clock)
    assert await router.run_once() == 8
    assert await send_all(store, session) == ids


async def test_they_keep_it_when_they_had_to_wait_for_a_session(store: Store, clock: ManualClock) -> None:
    ids = [
        await accepted(store, to=ANNA, message_id=f"msg_{9 - n}", wa_message_id=f"3EB0{9 - n}") for n in range(8)
    ]  # fmt: skip
    router = Router(store=store, settings=settings(), clock=clock)
    assert await router.run_once() == 0
    session = await linked(store)
    await plan(store, clock)
    clock.advance(seconds=1)
    assert await router.run_once() == 8
    assert await send_all(store, session) == ids


async def test_an_earlier_message_that_gets_its_sender_later_still_goes_first(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    early = await accepted(store)
    later = await accepted(store, session_id=session)
    await store.lanes.route([{"id": early, "lane": PHONE}])
    assert await send_all(store, session) == [early, later]
