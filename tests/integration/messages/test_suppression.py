"""Who opted out gets nothing more: refused at accept, cancelled while it waits, checked again at release and claim."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from support.messages import (
    ANNA,
    BERT,
    OTHER_PHONE,
    PHONE,
    accepted,
    ack,
    claim,
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
from wa_orchestrator.store.suppression import Answer, OptWord, Suppressed

_words = itertools.count(1)
LID = "123456789012@lid"


def word(session: str, kind: str = "out", *, at: int = 0, phone: str = ANNA, lid: str = "", answer: bool = False,
         wa: str = "") -> OptWord:  # fmt: skip
    number = next(_words)
    reply = Answer(id=f"msg_a{number:017x}", wa=f"3EB0A{number:017X}", to=f"{phone}@s.whatsapp.net", content="{}")
    return OptWord(session=session, phone=phone, lid=lid, kind="out" if kind == "out" else "in", word="stop",
                   wa=wa or f"wa{number}", at=at or number, answer=reply if answer else None)  # fmt: skip


async def by_hand(store: Store, phone: str = ANNA, **fields: Any) -> tuple[bool, int]:
    return await store.suppression.add(Suppressed(phone=phone, reason="complaint", source="hand", at=1, **fields))


async def test_a_send_to_a_suppressed_number_is_refused_from_every_session(store: Store) -> None:
    sessions = [await linked(store), await linked(store, OTHER_PHONE)]
    assert await by_hand(store) == (True, 0)
    for session in (*sessions, ""):
        with pytest.raises(errors.RecipientOptedOut):
            await accepted(store, session_id=session)
    await accepted(store, session_id=sessions[0], to=BERT)


async def test_a_refused_idempotency_key_may_be_used_again_and_an_accepted_one_is_replayed(store: Store) -> None:
    session = await linked(store)
    first = await accepted(store, session_id=session, idempotency_key="a", fingerprint="f")
    await by_hand(store)
    assert await accepted(store, session_id=session, idempotency_key="a", fingerprint="f") == first
    with pytest.raises(errors.RecipientOptedOut):
        await accepted(store, session_id=session, idempotency_key="b", fingerprint="f")
    await store.suppression.remove(ANNA, by="test")
    assert await accepted(store, session_id=session, idempotency_key="b", fingerprint="f")


async def test_everything_that_waits_is_cancelled_with_the_reason(store: Store, clock: ManualClock) -> None:
    one, two = await linked(store), await linked(store, OTHER_PHONE)
    for lane in (PHONE, OTHER_PHONE):
        await plan(store, clock, lane)
    in_outbox = await accepted(store, session_id=one)
    assert await release(store) == 1
    waiting = [
        in_outbox,
        await accepted(store, session_id=one),  # behind it
        await accepted(store, session_id=two),
        await accepted(store),  # not routed yet
        await accepted(store, session_id=one, schedule_at=clock.now_ms() + 10**7),
    ]
    others = await accepted(store, session_id=one, to=BERT)
    assert await by_hand(store) == (True, 5)
    for message_id in waiting:
        found = await record(store, message_id)
        assert (found["state"], found["reason"]) == ("cancelled", "RECIPIENT_OPTED_OUT")
    assert await state(store, others) == "queued"
    assert await release(store) == 1
    assert await claim(store, one) == [others]
    assert await claim(store, two) == []
    assert not await store.connection.call("EXISTS", keys.RECIPIENT_WAITING(ANNA))


async def test_what_a_worker_has_in_hand_is_let_go_but_never_handed_out_again(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    await accepted(store, session_id=session)
    await release(store)
    [message] = await store.outbox.claim(session, most=1)
    assert await by_hand(store) == (True, 0)
    assert await state(store, message["messageId"]) == "claimed"
    assert await nack(store, message, session) == "outbox"
    clock.advance(seconds=60_000 / 1000)
    assert await claim(store, session) == []
    assert (await record(store, message["messageId"]))["reason"] == "RECIPIENT_OPTED_OUT"


async def test_an_acknowledgement_after_the_opt_out_still_counts(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    await claim(store, session)
    await by_hand(store)
    assert await ack(store, message_id, session) is False
    assert await state(store, message_id) == "sent"


async def test_a_message_that_the_index_does_not_know_is_stopped_at_its_release(
    store: Store, clock: ManualClock
) -> None:
    """As after an upgrade, or when the process died before it had cancelled all of many."""
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await store.connection.call("DEL", keys.RECIPIENT_WAITING(ANNA))
    assert await by_hand(store) == (True, 0)
    assert await state(store, message_id) == "queued"
    assert await release(store) == 0
    assert (await record(store, message_id))["reason"] == "RECIPIENT_OPTED_OUT"


async def test_many_waiting_messages_are_cancelled_in_several_steps(store: Store) -> None:
    session = await linked(store)
    ids = [await accepted(store, session_id=session, defer=True) for _ in range(1300)]
    assert await by_hand(store) == (True, 1300)
    assert {await state(store, message_id) for message_id in ids} == {"cancelled"}
    assert await store.lanes.sizes(PHONE) == (0, 0)


async def test_a_failed_message_is_not_driven_again_to_a_suppressed_number(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    [message] = await store.outbox.claim(session, most=1)
    assert await nack(store, message, session, retryable=False) == "failed"
    await by_hand(store)
    with pytest.raises(errors.RecipientOptedOut):
        await store.messages.redrive(message_id)
    assert await state(store, message_id) == "failed"


# words -----------------------------------------------------------------------------------------------------------
async def test_a_word_opts_out_and_another_one_in_again(store: Store) -> None:
    session = await linked(store)
    waiting = await accepted(store, session_id=session)
    answer = await store.suppression.word(word(session))
    assert (answer["outcome"], answer["cancelled"], answer["answered"]) == ("out", 1, False)
    assert await state(store, waiting) == "cancelled"
    entry = await store.suppression.get(ANNA)
    assert entry is not None
    assert (entry.source, entry.by, entry.note) == ("word", session, "stop")
    assert (await store.suppression.word(word(session, "in")))["outcome"] == "in"
    assert await store.suppression.get(ANNA) is None
    await accepted(store, session_id=session)


async def test_a_repeated_or_late_word_changes_nothing(store: Store) -> None:
    session = await linked(store)
    stop, start = word(session, at=100), word(session, "in", at=200)
    assert (await store.suppression.word(stop))["outcome"] == "out"
    assert (await store.suppression.word(stop))["outcome"] == "repeat"
    assert (await store.suppression.word(start))["outcome"] == "in"
    assert (await store.suppression.word(stop))["outcome"] == "repeat"  # older than the opt-in
    assert await store.suppression.get(ANNA) is None


async def test_an_opt_in_does_not_lift_what_was_done_by_hand(store: Store) -> None:
    session = await linked(store)
    await by_hand(store)
    assert (await store.suppression.word(word(session, "in")))["outcome"] == "none"
    assert (await store.suppression.word(word(session)))["outcome"] == "none"
    assert (await store.suppression.word(word(session, "in")))["outcome"] == "none"
    entry = await store.suppression.get(ANNA)
    assert entry is not None
    assert entry.source == "hand"


async def test_the_answer_goes_out_once_through_the_lane(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=5)
    await accepted(store, session_id=session)
    first = word(session, answer=True)
    assert (await store.suppression.word(first))["answered"] is True
    assert (await store.suppression.word(word(session, answer=True)))["answered"] is False
    assert await release(store) == 1
    assert first.answer is not None
    assert await claim(store, session) == [first.answer.id]
    await ack(store, first.answer.id, session)
    found = await record(store, first.answer.id)
    assert (found["state"], found["by"], found["to"]) == ("sent", "server", f"{ANNA}@s.whatsapp.net")
    # out again the same day: the list, but no second answer
    assert (await store.suppression.word(word(session, "in")))["outcome"] == "in"
    again = await store.suppression.word(word(session, answer=True))
    assert (again["outcome"], again["answered"]) == ("out", False)
    clock.advance(seconds=2 * 86_400_000 / 1000)
    await store.suppression.word(word(session, "in"))
    assert (await store.suppression.word(word(session, answer=True)))["answered"] is True


async def test_a_lid_and_its_phone_are_one_recipient(store: Store) -> None:
    session = await linked(store)
    to_lid = await accepted(store, session_id=session, to=LID)
    await store.suppression.word(word(session, lid=LID))
    assert await state(store, to_lid) == "cancelled"
    for to in (ANNA, LID):
        with pytest.raises(errors.RecipientOptedOut):
            await accepted(store, session_id=session, to=to)
        entry = await store.suppression.get(to)
        assert entry is not None
        assert entry.phone == ANNA
    assert await store.suppression.count() == 1
    assert await store.suppression.remove(LID, by="test") == ANNA
    await accepted(store, session_id=session, to=LID)


async def test_a_lid_whose_number_becomes_known_moves_to_it(store: Store) -> None:
    session = await linked(store)
    await store.suppression.word(word(session, phone=LID, lid=LID))
    await store.suppression.word(word(session, phone=ANNA, lid=LID))
    entries = [entry async for entry in store.suppression.each()]
    assert [(entry.phone, entry.lid) for entry in entries] == [(ANNA, LID)]
    assert await store.suppression.count() == 1
    assert (await store.suppression.word(word(session, "in", phone=ANNA, lid=LID)))["outcome"] == "in"
    await accepted(store, session_id=session, to=LID)


async def test_parallel_opt_outs_make_one_entry_and_one_event(store: Store) -> None:
    session = await linked(store)
    ids = [await accepted(store, session_id=session) for _ in range(20)]
    one = word(session, answer=True)
    answers = await asyncio.gather(
        *(store.suppression.word(one) for _ in range(10)), *(by_hand(store) for _ in range(10))
    )
    assert (
        sum(1 for a in answers if isinstance(a, tuple) and a[0])
        + sum(1 for a in answers if isinstance(a, dict) and a["outcome"] == "out")
        == 1
    )
    assert {await state(store, i) for i in ids} == {"cancelled"}
    assert await store.suppression.count() == 1


async def test_the_list_is_told_newest_first_and_in_pages(store: Store, clock: ManualClock) -> None:
    for number in range(25):
        clock.advance(seconds=1000 / 1000)
        await by_hand(store, f"9725200{number:05}")
    newest = await store.suppression.newest(start=0, limit=10)
    assert [entry.phone for entry in newest] == [f"9725200{n:05}" for n in range(24, 14, -1)]
    assert len(await store.suppression.newest(start=20, limit=10)) == 5
    with pytest.raises(errors.NotSuppressed):
        await store.suppression.remove(BERT, by="test")
