"""Conversations in the store: idempotent, bounded, merged by number and LID, and gone when they should be."""

from __future__ import annotations

from typing import Any

from support.messages import ANNA, BERT, accepted, claim, linked, plan, release
from support.servers import StoreServer
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.store import Store, StoreRules, keys
from wa_orchestrator.store.conversations import Received

LID = "1234567@lid"
DAY_MS = 86_400_000


def came(wa: str, clock: ManualClock, *, chat: str = ANNA, **more: Any) -> Received:
    values: dict[str, Any] = {
        "chat": chat, "lid": "", "name": "", "sender": chat, "at": clock.now_ms(), "wa": wa,
        "entry": {"kind": "text", "from": chat, "text": f"text of {wa}"},
    }  # fmt: skip
    if {"edit", "deletion", "reaction"} & more.keys():
        values["entry"] = None
    return Received(**{**values, **more})


async def texts(store: Store, session: str, chat: str = ANNA) -> list[str]:
    """Oldest first; ours by their id."""
    said = await store.conversations.said(session, chat, limit=100)
    return [(one.edit or one.entry or {}).get("text", one.member) for one in reversed(said)]


async def sent(store: Store, clock: ManualClock, session: str, **wanted: Any) -> str:
    await plan(store, clock)
    message_id = await accepted(store, session_id=session, **wanted)
    await release(store)
    await claim(store, session)
    await store.outbox.ack(message_id, session_id=session, sent_at=clock.now_ms())
    return message_id


async def keys_of_inbox(store: Store) -> list[str]:
    found = [*await store.connection.call("KEYS", "inbox:*"), *await store.connection.call("KEYS", "inbound:*")]
    return sorted(found)


async def test_received_and_sent_messages_stand_in_order_and_repeats_change_nothing(
    store: Store, clock: ManualClock
) -> None:
    session = await linked(store)
    for _ in range(3):
        await store.conversations.receive(session, came("A1", clock, name="Anna"))
    clock.advance(seconds=1)
    mine = await sent(store, clock, session, to=ANNA)
    clock.advance(seconds=1)
    assert await store.conversations.receive(session, came("A2", clock)) == "kept"
    assert await store.conversations.receive(session, came("A2", clock)) == "known"
    assert await texts(store, session) == ["text of A1", mine, "text of A2"]
    (found,) = await store.conversations.newest(session, before="", limit=10)
    assert (found.chat, found.name, found.unread) == (ANNA, "Anna", 1), "answering reads what came before"
    assert found.last_at == clock.now_ms()


async def test_within_a_second_the_order_of_arrival_counts(store: Store, clock: ManualClock) -> None:
    """WhatsApp tells whole seconds, our own messages have milliseconds."""
    session = await linked(store)
    clock.advance(seconds=1 - clock.now_ms() % 1000 / 1000)
    second = clock.now_ms()
    clock.advance(seconds=0.6)
    for wa in ("Z", "A", "M"):
        await store.conversations.receive(session, came(wa, clock, at=second))
    mine = await sent(store, clock, session, to=ANNA)
    await store.conversations.receive(session, came("B", clock, at=second))
    assert await texts(store, session) == ["text of Z", "text of A", "text of M", mine, "text of B"]


async def test_a_receipt_that_overtakes_the_ack_brings_the_message_too(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    await claim(store, session)
    await store.messages.receipt(message_id, session_id=session, status="delivered", at=clock.now_ms())
    await store.outbox.ack(message_id, session_id=session, sent_at=clock.now_ms())
    assert await texts(store, session) == [message_id]


async def test_the_newest_conversation_comes_first_and_pages_go_on(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    chats = [f"97252{n:07}" for n in range(7)]
    for chat in chats:
        clock.advance(seconds=1)
        await store.conversations.receive(session, came("X", clock, chat=chat))
    await store.conversations.receive(session, came("Y", clock, chat=chats[0]))
    seen: list[str] = []
    while page := await store.conversations.newest(session, before=seen[-1] if seen else "", limit=3):
        seen += [one.chat for one in page]
    assert sorted(seen) == sorted(chats)
    assert seen[-1] == chats[1]
    assert await store.conversations.newest(session, before="972529999999", limit=3) == []


async def test_reactions_edits_and_deletions_change_their_message(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    mine = await sent(store, clock, session, to=ANNA)
    await store.conversations.receive(session, came("A1", clock))
    await store.conversations.receive(session, came("E1", clock, edit=("A1", {"text": "better", "at": 1})))
    await store.conversations.receive(session, came("R1", clock, reaction=([mine], "👍")))
    await store.conversations.receive(session, came("R2", clock, reaction=(["A1"], "😀")))
    assert sorted(await texts(store, session)) == sorted([mine, "better"])
    marks = {one.member: one.reactions for one in await store.conversations.said(session, ANNA, limit=10)}
    assert marks == {mine: {ANNA: "👍"}, "A1": {ANNA: "😀"}}
    (found,) = await store.conversations.newest(session, before="", limit=10)
    assert found.unread == 1, "they are no messages of their own"
    await store.conversations.receive(session, came("R3", clock, reaction=([mine], "")))
    await store.conversations.receive(session, came("D1", clock, deletion=("A1", {"kind": "deleted", "from": ANNA})))
    said = {one.member: one for one in await store.conversations.said(session, ANNA, limit=10)}
    assert said[mine].reactions == {}
    assert said["A1"].entry == {"kind": "deleted", "from": ANNA}
    assert said["A1"].edit is None
    assert "better" not in str(await store.connection.call("HGETALL", keys.INBOX_SAID(f"{session}:{ANNA}")))


async def test_our_own_reaction_is_a_mark_and_no_message(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await store.conversations.receive(session, came("A1", clock))
    content = '{"kind":"reaction","emoji":"🙏","target":{"waMessageId":"A1","fromMe":false}}'
    await sent(store, clock, session, to=ANNA, content=content)
    (said,) = await store.conversations.said(session, ANNA, limit=10)
    assert (said.member, said.reactions) == ("A1", {"me": "🙏"})


async def test_nobody_changes_what_another_wrote(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    group = "12345-67890@g.us"
    entry = {"kind": "text", "from": ANNA, "text": "mine"}
    await store.conversations.receive(session, came("G1", clock, chat=group, sender=ANNA, entry=entry))
    for change in (
        {"edit": ("G1", {"text": "forged", "at": 1})},
        {"deletion": ("G1", {"kind": "deleted", "from": BERT})},
    ):
        await store.conversations.receive(session, came("X", clock, chat=group, sender=BERT, **change))
    assert await texts(store, session, group) == ["mine"]


async def test_what_was_kept_under_a_lid_moves_to_its_number(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await store.conversations.receive(session, came("A1", clock, chat=LID, lid=LID, name="Anna"))
    clock.advance(seconds=1)
    await store.conversations.receive(session, came("A2", clock, lid=LID))
    clock.advance(seconds=1)
    by_lid = await sent(store, clock, session, to=LID, recipient=LID)
    clock.advance(seconds=1)
    await store.conversations.receive(session, came("A3", clock, chat=LID, lid=LID))
    (found,) = await store.conversations.newest(session, before="", limit=10)
    assert (found.chat, found.lid) == (ANNA, LID)
    assert await texts(store, session) == ["text of A1", "text of A2", by_lid, "text of A3"]
    assert await store.conversations.chat_of(session, LID) == ANNA
    assert await store.conversations.one(session, LID) is None


async def test_a_conversation_keeps_its_newest_hundred(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    for n in range(130):
        clock.advance(seconds=1)
        await store.conversations.receive(session, came(f"A{n}", clock))
        await store.conversations.receive(session, came("R", clock, reaction=([f"A{n}"], "👍")))
    kept = await texts(store, session)
    assert kept == [f"text of A{n}" for n in range(30, 130)]
    assert await store.connection.call("HLEN", keys.INBOX_SAID(f"{session}:{ANNA}")) == 200


async def test_a_session_keeps_its_newest_five_hundred_chats(valkey_store: Store, clock: ManualClock) -> None:
    store = valkey_store
    session = await linked(store)
    for n in range(503):
        clock.advance(seconds=1)
        await store.conversations.receive(session, came("A", clock, chat=f"97252{n:07}", lid=f"99{n:05}@lid"))
    assert await store.connection.call("ZCARD", keys.INBOX(session)) == 500
    assert await store.conversations.one(session, "972520000002") is None
    assert await store.conversations.one(session, "972520000003") is not None
    assert len(await keys_of_inbox(store)) == 1 + 500 * 4


async def test_old_conversations_go_by_themselves(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await store.conversations.receive(session, came("A1", clock))
    await store.conversations.receive(session, came("B1", clock, chat=BERT))
    clock.advance(seconds=20 * 86_400)
    await store.conversations.receive(session, came("A2", clock))
    clock.advance(seconds=20 * 86_400)
    await store.conversations.receive(session, came("A3", clock))
    assert await texts(store, session) == ["text of A2", "text of A3"]
    assert [one.chat for one in await store.conversations.newest(session, before="", limit=9)] == [ANNA]
    for key in await keys_of_inbox(store):
        assert 0 < await store.connection.call("PTTL", key) <= 30 * DAY_MS, key


async def test_deleting_the_session_takes_everything_along(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    media = ("in_" + "0a" * 12, {"state": "pending"})
    await store.conversations.receive(session, came("A1", clock, lid=LID, media=media))
    await sent(store, clock, session, to=BERT)
    assert await keys_of_inbox(store)
    await store.sessions.delete(session, forget=True, keep_s=60)
    assert await keys_of_inbox(store) == []
    assert await store.conversations.receive(session, came("A2", clock, media=media)) == "unknown"
    assert await keys_of_inbox(store) == [], "what comes late brings nothing back"


async def test_without_an_inbox_only_files_are_recorded(valkey: StoreServer, valkey_store: Store) -> None:
    clock = ManualClock()
    store = Store(valkey.url, clock, StoreRules(inbox_keep_days=0))
    try:
        session = await linked(store)
        media = ("in_" + "0a" * 12, {"state": "pending"})
        assert await store.conversations.receive(session, came("A1", clock, media=media)) == "off"
        await sent(store, clock, session, to=ANNA)
        assert await keys_of_inbox(store) == sorted(
            [keys.INBOUND_MEDIA(f"{session}:{media[0]}"), keys.INBOUND_MEDIA_OF(session)]
        )
    finally:
        await store.close()


async def test_a_file_that_is_ready_stays_ready(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    media_id = "in_" + "0b" * 12
    # the file can be known before its message: events and uploads come by different ways
    assert await store.conversations.settle_media(session, media_id, {"state": "ready", "sizeBytes": 7}) == "moved"
    await store.conversations.receive(session, came("A1", clock, media=(media_id, {"state": "pending"})))
    assert await store.conversations.settle_media(session, media_id, {"state": "failed"}) == "known"
    found = await store.conversations.media(session, media_id)
    assert found is not None
    assert (found["state"], found["sizeBytes"]) == ("ready", "7")
    assert await store.conversations.settle_media("worker_99", media_id, {"state": "ready"}) == "unknown"


async def test_a_message_driven_again_says_so_to_the_worker(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock)
    message_id = await accepted(store, session_id=session)
    await release(store)
    (first,) = await store.outbox.claim(session, most=1)
    await store.outbox.nack(message_id, session_id=session, token=first["token"], code="NOT_ON_WHATSAPP", message="",
                            retryable=False, retry_after_ms=None, kind="refused")  # fmt: skip
    await store.messages.redrive(message_id)
    await release(store)
    (second,) = await store.outbox.claim(session, most=1)
    assert (first["redriven"], second["redriven"]) == (False, True)
