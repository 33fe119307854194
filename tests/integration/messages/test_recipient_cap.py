"""RECIPIENT_CAP_PER_DAY: counted over all senders, at release, and never exceeded."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.messages import (
    ANNA,
    BERT,
    DAY_MS,
    OTHER_PHONE,
    PHONE,
    accepted,
    ack,
    claim,
    linked,
    plan,
    record,
    release,
    settings,
    state,
)
from support.servers import StoreServer
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.store import Store, StoreRules
from wa_orchestrator.suppression.advice import recipient_view

CAP = 2


@pytest.fixture
async def capped(store: Store, any_server: StoreServer, clock: ManualClock) -> AsyncIterator[Store]:
    """The same server, seen by a process with the cap."""
    found = Store(any_server.url, clock, StoreRules(recipient_cap_per_day=CAP))
    yield found
    await found.close()


async def test_more_than_the_cap_is_refused_whoever_sends(capped: Store) -> None:
    sessions = [await linked(capped), await linked(capped, OTHER_PHONE)]
    await accepted(capped, session_id=sessions[0])
    await accepted(capped, session_id=sessions[1])
    for session in (*sessions, ""):
        with pytest.raises(errors.RecipientCap) as refused:
            await accepted(capped, session_id=session)
        assert refused.value.details is not None
        assert refused.value.details["limit"] == CAP
    await accepted(capped, session_id=sessions[0], to=BERT)


async def test_deferred_ones_wait_for_the_next_day_in_order(capped: Store, clock: ManualClock) -> None:
    session = await linked(capped)
    await plan(capped, clock, day_ends_at=clock.now_ms() + 10 * DAY_MS, closes_at=clock.now_ms() + 10 * DAY_MS,
               replan_at=clock.now_ms() + 10 * DAY_MS)  # fmt: skip
    ids = [await accepted(capped, session_id=session, defer=True) for _ in range(5)]
    router = Router(store=capped, settings=settings(), clock=clock)
    sent: list[list[str]] = []
    for _ in range(3):
        today: list[str] = []
        for _ in range(6):
            await router.run_once()
            await release(capped)
            for message_id in await claim(capped, session):
                today.append(message_id)
                await ack(capped, message_id, session)
        sent.append(today)
        clock.advance(seconds=DAY_MS / 1000)
    assert sent == [ids[:2], ids[2:4], ids[4:]]
    story = await record(capped, ids[4])
    assert "put_off" in story["story"]


async def test_the_cap_holds_over_two_lanes_at_release(capped: Store, clock: ManualClock) -> None:
    one, two = await linked(capped), await linked(capped, OTHER_PHONE)
    for lane in (PHONE, OTHER_PHONE):
        await plan(capped, clock, lane)
    ids = [await accepted(capped, session_id=session, defer=True) for session in (one, two) * 3]
    released = 0
    for _ in range(8):
        released += await release(capped)
        for session in (one, two):
            for message_id in await claim(capped, session):
                await ack(capped, message_id, session)
    assert released == CAP
    assert sorted([await state(capped, i) for i in ids]) == ["accepted"] * 4 + ["sent"] * 2
    assert (await record(capped, ids[5]))["waitingFor"] == "RECIPIENT_CAP"


async def test_what_was_not_sent_gives_its_place_back(capped: Store, clock: ManualClock) -> None:
    session = await linked(capped)
    await plan(capped, clock)
    first, second = [await accepted(capped, session_id=session) for _ in range(2)]
    await release(capped)
    await capped.messages.cancel(first, reason="TEST")
    await release(capped)
    known = await capped.suppression.recipient(ANNA)
    assert (known.today, known.waiting) == (1, 1)
    assert await state(capped, second) == "outbox"
    # one of the two places is free again
    third = await accepted(capped, session_id=session)
    with pytest.raises(errors.RecipientCap):
        await accepted(capped, session_id=session)
    assert await claim(capped, session) == [second]
    await ack(capped, second, session)
    assert await release(capped) == 1
    assert await claim(capped, session) == [third]


async def test_a_message_that_comes_back_is_counted_once(capped: Store, clock: ManualClock) -> None:
    session = await linked(capped)
    await plan(capped, clock)
    message_id = await accepted(capped, session_id=session)
    for _ in range(4):
        assert await release(capped) == 1
        await capped.connection.call("HSET", f"lane:{PHONE}", "blockedUntil", clock.now_ms() + 1000)
        assert await claim(capped, session) == []  # WhatsApp limits the phone: back into the lane
        await capped.connection.call("HDEL", f"lane:{PHONE}", "blockedUntil")
        clock.advance(seconds=5000 / 1000)
    assert (await capped.suppression.recipient(ANNA)).today == 1
    assert await state(capped, message_id) == "queued"


async def test_the_recipient_is_explained(capped: Store) -> None:
    session = await linked(capped)
    view = recipient_view(ANNA, await capped.suppression.recipient(ANNA))
    assert (view["maySend"], view["reasons"], view["lastContact"]) == (True, [], None)
    for _ in range(CAP):
        await accepted(capped, session_id=session)
    view = recipient_view(ANNA, await capped.suppression.recipient(ANNA))
    assert (view["maySend"], view["reasons"][0]["code"], view["waiting"]) == (False, "RECIPIENT_CAP", CAP)
