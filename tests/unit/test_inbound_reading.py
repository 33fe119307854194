"""What conversations keep of an incoming message; strangers decide what it holds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from wa_orchestrator.inbound.files import InboundFiles
from wa_orchestrator.inbound.reading import media_outcome, received
from wa_orchestrator.inbound.views import conversation_view, message_views
from wa_orchestrator.store.conversations import Conversation, Said

NOW = 1_700_000_000_000
MEDIA = "in_" + "0a" * 12


def message(**more: Any) -> dict[str, Any]:
    return {
        "waMessageId": "3A01",
        "from": "972521111111",
        "fromLid": "1234567@lid",
        "chat": "972521111111@s.whatsapp.net",
        "isGroup": False,
        "pushName": "Anna",
        "kind": "text",
        "text": "hello",
        "timestamp": NOW - 5,
        "offline": False,
        **more,
    }


def test_a_text_is_kept_under_the_number_with_its_lid_and_name() -> None:
    found = received(message(), at=NOW)
    assert found is not None
    assert (found.chat, found.lid, found.name, found.sender, found.at) == (
        "972521111111", "1234567@lid", "Anna", "972521111111", NOW - 5,
    )  # fmt: skip
    assert found.entry == {"kind": "text", "from": "972521111111", "text": "hello"}


def test_a_sender_without_a_number_is_kept_under_the_lid() -> None:
    found = received(message(**{"from": "1234567@lid", "chat": "1234567@lid"}), at=NOW)
    assert found is not None
    assert (found.chat, found.lid, found.sender) == ("1234567@lid", "1234567@lid", "1234567@lid")


def test_in_a_group_the_name_is_the_writers_and_no_lid_names_the_chat() -> None:
    found = received(message(chat="12345-67890@g.us", isGroup=True), at=NOW)
    assert found is not None
    assert (found.chat, found.lid, found.name) == ("12345-67890@g.us", "", "")
    assert found.entry is not None
    assert (found.entry["from"], found.entry["name"]) == ("972521111111", "Anna")


def test_nothing_lies_in_the_future() -> None:
    found = received(message(timestamp=NOW + 10**9), at=NOW)
    assert found is not None
    assert found.at == NOW


def test_a_file_brings_its_record() -> None:
    media = {"kind": "image", "mimetype": "image/png", "sizeBytes": 7, "sha256": "ab" * 32, "state": "pending"}
    found = received(message(kind="image", media={**media, "mediaId": MEDIA}), at=NOW)
    assert found is not None
    assert found.media == (
        MEDIA,
        {"kind": "image", "mimetype": "image/png", "sha256": "ab" * 32, "sizeBytes": 7, "state": "pending",
         "waMessageId": "3A01"},
    )  # fmt: skip
    assert found.entry is not None
    assert found.entry["media"]["mediaId"] == MEDIA
    forged = received(message(kind="image", media={**media, "mediaId": "../../etc"}), at=NOW)
    assert forged is not None
    assert forged.media is None


def test_reactions_edits_and_deletions_name_their_message() -> None:
    ours = received(message(kind="reaction", reaction={"waMessageId": "3EB0ABCD", "emoji": "👍"}), at=NOW)
    theirs = received(message(kind="reaction", reaction={"waMessageId": "3A00", "emoji": ""}), at=NOW)
    edit = received(message(kind="edit", edit={"waMessageId": "3A00", "text": "new"}), at=NOW)
    deletion = received(message(kind="delete", deletion={"waMessageId": "3A00"}), at=NOW)
    assert ours
    assert theirs
    assert edit
    assert deletion
    assert ours.reaction == (["3EB0ABCD", "msg_abcd"], "👍")
    assert theirs.reaction == (["3A00"], "")
    assert edit.edit == ("3A00", {"text": "new", "at": NOW - 5})
    assert deletion.deletion == ("3A00", {"kind": "deleted", "from": "972521111111"})
    assert all(one.entry is None for one in (ours, theirs, edit, deletion))
    assert received(message(kind="delete"), at=NOW) is None, "it names nothing"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"waMessageId": 7, "from": "972521111111"},
        message(chat="not a chat", **{"from": "x"}),
        message(chat="972521111111:evil", **{"from": None}),
        message(chat="972521111111@s.whatsapp.net:other"),
        message(waMessageId=None),
    ],
)
def test_what_is_no_message_is_passed_over(data: dict[str, Any]) -> None:
    assert received(data, at=NOW) is None


def test_odd_types_do_no_harm_and_long_texts_are_cut() -> None:
    odd = message(text=["x"], media="x", replyTo=1, contacts={"a": 1}, timestamp="now", pushName=5, kind=9)
    found = received(odd, at=NOW)
    assert found is not None
    assert found.entry == {"kind": "text", "from": "972521111111"}
    long = received(message(text="x" * 100_000), at=NOW)
    assert long is not None
    assert long.entry is not None
    assert len(long.entry["text"]) == 4096


def test_the_fate_of_a_file() -> None:
    data = {"mediaId": MEDIA, "mimetype": "image/png", "sizeBytes": 7}
    assert media_outcome("MEDIA_READY", data) == (MEDIA, {"mimetype": "image/png", "sizeBytes": 7, "state": "ready"})
    failed = media_outcome("MEDIA_FAILED", {**data, "error": {"code": "EXPIRED", "message": "gone"}})
    assert failed is not None
    assert (failed[1]["state"], failed[1]["reason"]) == ("failed", "EXPIRED")
    assert media_outcome("MEDIA_READY", {"mediaId": "in_x"}) is None


# views ----------------------------------------------------------------------------------------------------------
def test_received_and_sent_messages_have_one_form() -> None:
    came = Said(member="3A01", at=NOW, entry={"kind": "text", "from": "9725", "text": "old"},
                edit={"text": "new", "at": NOW + 1}, reactions={"me": "👍"})  # fmt: skip
    went = Said(member="msg_1", at=NOW + 5, entry=None)
    gone = Said(member="msg_2", at=NOW + 6, entry=None)
    content = {"kind": "image", "media": {"base64": "AAAA", "mimetype": "image/png"}, "caption": "look"}
    record = {"id": "msg_1", "wa": "3EB01", "state": "read", "content": msgspec.json.encode(content).decode()}
    first, second = message_views([came, went, gone], sent={"msg_1": record}, media_states={}, session_id="s")
    assert set(first) == set(second)
    assert (first["direction"], first["text"], first["reactions"]) == ("in", "new", [{"from": "me", "emoji": "👍"}])
    assert first["editedAt"]
    assert (second["direction"], second["text"], second["status"]) == ("out", "look", "read")
    told = {name: value for name, value in second["media"].items() if value is not None}
    assert told == {"kind": "image", "mimetype": "image/png"}, "the file itself is not told again"


def test_a_file_is_shown_with_its_present_state() -> None:
    entry = {"kind": "image", "from": "9725", "media": {"kind": "image", "mediaId": MEDIA, "state": "pending"}}
    said = [Said(member="3A01", at=NOW, entry=entry)]

    def shown(states: dict[str, str]) -> dict[str, Any]:
        (view,) = message_views(said, sent={}, media_states=states, session_id="worker_1")
        found: dict[str, Any] = view["media"]
        return found

    assert shown({MEDIA: "pending"})["url"] is None
    assert shown({MEDIA: "ready"})["url"] == f"/api/v1/sessions/worker_1/media/{MEDIA}"
    assert shown({})["state"] == "removed"


@pytest.mark.parametrize(
    ("chat", "phone", "lid", "group"),
    [("972521111111", "972521111111", "7@lid", False), ("7@lid", None, "7@lid", False), ("1-2@g.us", None, None, True)],
)
def test_a_conversation_tells_number_lid_or_group(chat: str, phone: str | None, lid: str | None, group: bool) -> None:
    kept_lid = "7@lid" if phone else ""
    view = conversation_view(Conversation(chat=chat, last_at=NOW, name="", lid=kept_lid, unread=2), None)
    assert (view["phone"], view["lid"], view["isGroup"], view["unread"]) == (phone, lid, group, 2)


# files ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("session_id", "media_id"), [("..", MEDIA), ("a/b", MEDIA), ("worker_1", "../x"), ("worker_1", MEDIA + "\n")]
)
def test_no_name_leads_out_of_the_folder(tmp_path: Any, session_id: str, media_id: str) -> None:
    files = InboundFiles(tmp_path, max_bytes=10, total_bytes=100, keep_days=1)
    assert files.find(session_id, media_id) is None
