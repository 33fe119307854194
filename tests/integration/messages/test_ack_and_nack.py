"""A worker's word: sent is a fact however late; not sent is retried, slowed down, or ended."""

from __future__ import annotations

from typing import Any

import pytest

from support.messages import (
    ANNA,
    BERT,
    CARL,
    PHONE,
    accepted,
    ack,
    claim,
    lane_field,
    linked,
    nack,
    plan,
    record,
    release,
    state,
)
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.store import Store, keys


async def handed_out(store: Store, clock: ManualClock, session: str, **wanted: Any) -> dict[str, Any]:
    await plan(store, clock)
    await accepted(store, session_id=session, **wanted)
    await release(store)
    (message,) = await store.outbox.claim(session, most=1)
    return message


async def test_an_ack_ends_in_sent(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    assert not await ack(store, message["messageId"], session, sent_at=77)
    found = await record(store, message["messageId"])
    assert (found["state"], found["sentAt"]) == ("sent", "77")
    assert await store.connection.call("GET", keys.RECIPIENT(ANNA)) == session
    assert await store.connection.call("PTTL", keys.MESSAGE(message["messageId"])) > 0
    assert (await store.messages.counts())["today"] == {"accepted": 1, "sent": 1}


async def test_a_repeated_ack_is_known_and_counts_once(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    assert [await ack(store, message["messageId"], session) for _ in range(3)] == [False, True, True]
    assert (await store.messages.counts())["today"]["sent"] == 1


async def test_a_late_ack_after_the_lease_is_believed(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    clock.advance(seconds=121)
    assert await store.outbox.requeue_expired() == 1
    assert not await ack(store, message["messageId"], session)
    assert await claim(store, session) == []
    assert await store.lanes.sizes(PHONE) == (0, 0)


async def test_an_ack_after_failure_corrects_it(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    await nack(store, message, session, retryable=False)
    assert not await ack(store, message["messageId"], session)
    found = await record(store, message["messageId"])
    assert (found["state"], found["reason"]) == ("sent", "")
    assert await store.messages.dead(limit=10) == []


async def test_an_ack_after_a_redrive_is_believed_and_nothing_is_sent_again(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    await nack(store, message, session, retryable=False)
    await store.messages.redrive(message["messageId"])
    assert not await ack(store, message["messageId"], session)
    assert await release(store) == 0


@pytest.mark.parametrize("word", ["ack", "nack"])
async def test_a_worker_speaks_only_for_its_own_messages(store: Store, clock: ManualClock, word: str) -> None:
    session, other = await linked(store), await linked(store)
    message = await handed_out(store, clock, session)
    with pytest.raises(errors.MessageNotFound):
        await (ack(store, message["messageId"], other) if word == "ack" else nack(store, message, other))
    with pytest.raises(errors.MessageNotFound):
        await ack(store, "msg_nothing", session)
    assert await state(store, message["messageId"]) == "claimed"


async def test_three_refusals_end_in_failed_and_on_the_dead_list(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    states = [await nack(store, message, session)]
    for pause in (1, 2):
        clock.advance(seconds=pause - 0.001)
        assert await claim(store, session) == []
        clock.advance(seconds=0.001)
        (message,) = await store.outbox.claim(session, most=1)
        states.append(await nack(store, message, session))
    assert states == ["outbox", "outbox", "failed"]
    assert message["attempt"] == 3
    found = await record(store, message["messageId"])
    assert found["reason"] == "WA_REJECTED: no"
    assert found["story"].count("not_sent") == 3
    assert await store.messages.dead(limit=10) == [message["messageId"]]
    assert (await store.messages.counts())["today"]["failed"] == 1


async def test_an_unclear_end_does_not_burn_attempts(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    for _ in range(6):
        assert await nack(store, message, session, code="ACK_TIMEOUT", kind="unclear") == "outbox"
        clock.advance(seconds=60)
        (message,) = await store.outbox.claim(session, most=1)
        assert message["attempt"] == 1


async def test_what_never_gets_an_answer_ends_after_twenty_tries(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    answers = []
    for _ in range(20):
        answers.append(await nack(store, message, session, code="ACK_TIMEOUT", kind="unclear"))
        clock.advance(seconds=60)
        found = await store.outbox.claim(session, most=1)
        message = found[0] if found else message
    assert answers == ["outbox"] * 19 + ["failed"]


async def test_the_worker_may_say_when_to_try_again(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    await nack(store, message, session, retry_after_ms=5000)
    clock.advance(seconds=4.999)
    assert await claim(store, session) == []
    clock.advance(seconds=0.001)
    assert len(await claim(store, session)) == 1


async def test_whatsapps_own_limit_stops_the_lane_and_doubles(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session, to=ANNA)
    await accepted(store, session_id=session, to=BERT)
    waits = []
    for _ in range(3):
        assert await nack(store, message, session, code="RATE_LIMITED", kind="limited", block_ms=60_000) == "queued"
        until = float(await lane_field(store, "blockedUntil") or 0)
        waits.append((until - clock.now_ms()) / 1000)
        assert await release(store) == 0
        clock.advance(seconds=waits[-1])
        await release(store)
        message, *_ = await store.outbox.claim(session, most=1)
    assert waits == [60, 120, 240]
    assert (await record(store, message["messageId"])).get("attempts") is None
    await ack(store, message["messageId"], session)
    assert await lane_field(store, "blocks") is None


async def test_a_success_that_was_under_way_does_not_end_the_block(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    for to in (ANNA, BERT):
        await accepted(store, session_id=session, to=to)
    await release(store)
    limited, other = await store.outbox.claim(session, most=2)
    await nack(store, limited, session, code="RESTRICTED", kind="limited", block_ms=60_000)
    await ack(store, other["messageId"], session)
    assert (await lane_field(store, "blocks"), await lane_field(store, "blockReason")) == ("1", "RESTRICTED")


async def test_a_limited_message_gives_its_place_in_the_day_back(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    message = await handed_out(store, clock, session)
    assert await lane_field(store, "dayCount") == "1"
    await nack(store, message, session, code="RATE_LIMITED", kind="limited", block_ms=60_000)
    assert await lane_field(store, "dayCount") == "0"


async def test_an_old_token_is_refused(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    old = await handed_out(store, clock, session)
    clock.advance(seconds=121)
    await store.outbox.requeue_expired()
    with pytest.raises(errors.LeaseLost):
        await nack(store, old, session)
    (new,) = await store.outbox.claim(session, most=1)
    with pytest.raises(errors.LeaseLost) as refused:
        await nack(store, old, session)
    assert refused.value.details == {"state": "claimed"}
    assert await nack(store, new, session) == "outbox"
    assert (await record(store, new["messageId"]))["attempts"] == "1"


async def test_failures_in_a_row_slow_the_lane_and_one_success_ends_it(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    for number, to in enumerate((ANNA, BERT, CARL), start=1):
        message = await handed_out(store, clock, session, to=to)
        await nack(store, message, session, retryable=False)
        assert await lane_field(store, "slow") == ("2" if number == 3 else None)
    message = await handed_out(store, clock, session)
    await ack(store, message["messageId"], session)
    assert await lane_field(store, "slow") is None
    kinds = [e.type for e in await store.journal.after(0, limit=100)]
    assert ("lane.slowed" in kinds, "lane.recovered" in kinds) == (True, True)
