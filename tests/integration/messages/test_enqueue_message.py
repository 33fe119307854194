"""Accepting a message: one step, or nothing at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.messages import (
    ANNA,
    DAY_MS,
    OTHER_PHONE,
    PHONE,
    accepted,
    lane_field,
    linked,
    new_message,
    plan,
    record,
    set_status,
    state,
    unlinked,
)
from support.servers import StoreServer
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store, StoreRules, keys


async def all_keys(store: Store) -> dict[str, str]:
    """Every key with the hash of its content."""
    found: list[str] = await store.connection.call("KEYS", "*")
    return {name: await store.connection.call("EVAL", _HASH, 0, name) for name in found}


_HASH = "return redis.sha1hex(redis.call('DUMP', ARGV[1]))"


async def test_a_message_with_a_sender_is_queued_at_once(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    answer = await store.messages.enqueue(new_message(session_id=session))
    found = await record(store, answer["messageId"])
    assert (found["state"], found["lane"], found["session"]) == ("queued", PHONE, session)
    assert found["acceptedAt"] == str(clock.now_ms())
    assert await store.lanes.sizes(PHONE) == (1, 0)
    assert (await store.messages.counts())["today"]["accepted"] == 1


async def test_a_message_without_a_sender_waits_to_be_routed(store: Store, clock: ManualClock) -> None:
    message_id = await accepted(store)
    assert await state(store, message_id) == "accepted"
    jobs = await store.lanes.due_jobs(now_ms=clock.now_ms(), limit=10)
    assert [job.message_id for job in jobs] == [message_id]


async def test_a_planned_message_waits_for_its_time(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message_id = await accepted(store, session_id=session, schedule_at=clock.now_ms() + 60_000)
    assert await state(store, message_id) == "accepted"
    assert await store.lanes.due_jobs(now_ms=clock.now_ms() + 59_998, limit=10) == []
    assert len(await store.lanes.due_jobs(now_ms=clock.now_ms() + 60_000, limit=10)) == 1


async def test_a_session_nobody_scanned_takes_messages_for_later(store: Store) -> None:
    session = await unlinked(store)
    assert await state(store, await accepted(store, session_id=session)) == "accepted"


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        ({"session_id": "nobody"}, errors.SessionNotFound),
        ({"phone": "972599999999"}, errors.SenderNotFound),
        ({"session_id": "full"}, errors.DailyLimit),
        ({"phone": PHONE}, errors.DailyLimit),
    ],
)
async def test_a_refusal_leaves_nothing(
    store: Store, clock: ManualClock, wanted: dict[str, Any], error: type[Exception]
) -> None:
    await linked(store, session_id="full")
    await plan(store, clock, daily=0)
    before = await all_keys(store)
    with pytest.raises(error):
        await store.messages.enqueue(new_message(idempotency_key="key", fingerprint="f", **wanted))
    assert await all_keys(store) == before


async def test_a_phone_whose_only_session_was_logged_out_is_no_sender(store: Store) -> None:
    session = await linked(store)
    await set_status(store, session, Status.LOGGED_OUT)
    with pytest.raises(errors.SenderNotFound):
        await accepted(store, phone=PHONE)


async def test_a_session_that_is_being_deleted_takes_nothing(store: Store) -> None:
    session = await linked(store)
    await store.sessions.order(session, "delete")
    with pytest.raises(errors.SessionNotFound):
        await accepted(store, session_id=session)


async def test_fifty_parallel_posts_with_one_key_make_one_message(store: Store) -> None:
    session = await linked(store)
    posts = [new_message(session_id=session, idempotency_key="one", fingerprint="same") for _ in range(50)]
    answers = await asyncio.gather(*(store.messages.enqueue(post) for post in posts))
    assert len({answer["messageId"] for answer in answers}) == 1
    assert sorted(answer.pop("replayed") for answer in answers) == [False] + [True] * 49
    assert all(answer == answers[0] for answer in answers)
    assert await store.connection.call("ZCARD", keys.MESSAGES_ALL()) == 1
    assert (await store.messages.counts())["today"] == {"accepted": 1}


async def test_the_same_key_with_another_body_is_refused(store: Store) -> None:
    await accepted(store, idempotency_key="one", fingerprint="first")
    with pytest.raises(errors.IdempotencyKeyReused):
        await accepted(store, idempotency_key="one", fingerprint="second")
    assert await store.connection.call("ZCARD", keys.MESSAGES_ALL()) == 1


async def test_a_key_is_remembered_for_a_day(store: Store) -> None:
    await accepted(store, idempotency_key="one", fingerprint="first")
    assert 86_390 < await store.connection.call("TTL", keys.IDEMPOTENCY("one")) <= 86_400


async def test_a_replay_is_answered_although_the_day_is_full_meanwhile(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    first = new_message(session_id=session, idempotency_key="one", fingerprint="f")
    answer = await store.messages.enqueue(first)
    await plan(store, clock, daily=0)
    again = await store.messages.enqueue(new_message(session_id=session, idempotency_key="one", fingerprint="f"))
    assert (again["messageId"], again["replayed"]) == (answer["messageId"], True)


async def test_the_day_limit_counts_what_waits(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=2)
    await accepted(store, session_id=session)
    await accepted(store, session_id=session)
    with pytest.raises(errors.DailyLimit) as refused:
        await accepted(store, session_id=session)
    assert refused.value.details == {"limit": 2, "resetsAt": clock.now_ms() + DAY_MS}


async def test_a_deferred_or_planned_message_is_taken_over_the_limit(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=0)
    await accepted(store, session_id=session, defer=True)
    await accepted(store, session_id=session, schedule_at=clock.now_ms() + DAY_MS)


async def test_the_time_of_a_reset_lies_ahead_even_when_the_plan_is_old(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=1)
    await accepted(store, session_id=session)
    clock.advance(seconds=3 * 86_400 + 5)
    with pytest.raises(errors.DailyLimit) as refused:
        await accepted(store, session_id=session)
    assert refused.value.details is not None
    resets = refused.value.details["resetsAt"]
    assert isinstance(resets, int | float)
    assert clock.now_ms() < resets <= clock.now_ms() + DAY_MS


async def test_the_rate_limit_is_exact_and_shared_by_all_gateways(any_server: StoreServer, store: Store,
                                                                 clock: ManualClock) -> None:  # fmt: skip
    rules = StoreRules(rate_per_second=10, rate_burst=3)
    gateways = [Store(any_server.url, clock, rules) for _ in range(2)]

    try:
        assert [await fits(gateways[n % 2]) for n in range(5)] == [True, True, True, False, False]
        clock.advance(seconds=0.0991)
        assert not await fits(gateways[0])
        clock.advance(seconds=0.0011)
        assert [await fits(gateways[n % 2]) for n in range(2)] == [True, False]
        clock.advance(seconds=60)
        assert [await fits(gateways[n % 2]) for n in range(4)] == [True, True, True, False]
        assert await store.connection.call("ZCARD", keys.MESSAGES_ALL()) == 7
    finally:
        for gateway in gateways:
            await gateway.close()


async def fits(store: Store) -> bool:
    try:
        await accepted(store)
    except errors.TooManyRequests as error:
        wait_ms = (error.details or {})["retryAfterMs"]
        return not (isinstance(wait_ms, int) and 0 < wait_ms <= 100)
    return True


async def test_an_expiry_is_remembered(store: Store, clock: ManualClock) -> None:
    message_id = await accepted(store, expires_at=clock.now_ms() + 5000)
    assert await store.connection.call("ZSCORE", keys.MESSAGES_EXPIRING(), message_id) == clock.now_ms() + 5000


async def test_the_answer_carries_what_the_estimate_needs(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=7, per_minute=3, min_delay_ms=10, max_delay_ms=20)
    await accepted(store, session_id=session, to=ANNA)
    snapshot = (await store.messages.enqueue(new_message(session_id=session)))["snapshot"]
    assert (snapshot["pending"], snapshot["daily"], snapshot["perMinute"]) == (1, 7, 3)
    assert await lane_field(store, "dayCount") == "0"
    assert OTHER_PHONE not in snapshot
