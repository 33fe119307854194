"""WAHA's ways to send become ours."""

from __future__ import annotations

from typing import Any

import pytest

from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.gateway.content import ContentReader
from wa_orchestrator.waha import bodies, messages
from wa_orchestrator.waha.names import MessageRef

READER = ContentReader(max_text=4096, max_media_bytes=1 << 20)
CHAT = "972501234567@c.us"


def media(**file: Any) -> bodies.Media:
    return bodies.Media.model_validate({"chatId": CHAT, "file": file, "caption": "look"})


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("image", {"kind": "image", "caption": "look"}),
        ("video", {"kind": "video", "caption": "look"}),
        ("document", {"kind": "document", "caption": "look"}),
        ("voice", {"kind": "audio", "voice": True}),
    ],
)
def test_files_are_understood_by_the_gateway(kind: str, read: dict[str, Any]) -> None:
    content = messages.media_content(kind, media(url="https://files.example/a.bin", mimetype="x/y", filename="a.bin"))
    named = {"url": "https://files.example/a.bin", "mimetype": "x/y", "fileName": "a.bin"}
    assert READER.read(content) == {**read, "media": named}


def test_base64_is_waha_s_data() -> None:
    assert READER.read(messages.media_content("image", media(data="aGVsbG8=")))["media"] == {"base64": "aGVsbG8="}


@pytest.mark.parametrize("file", [{}, {"url": "https://a.example/1", "data": "aGVsbG8="}])
def test_a_file_is_given_once(file: dict[str, str]) -> None:
    with pytest.raises(InvalidBody, match="either url or data"):
        messages.media_content("image", media(**file))


def test_a_place_with_its_title() -> None:
    body = bodies.Location.model_validate({"chatId": CHAT, "latitude": 32.1, "longitude": 34.8, "title": "Here"})
    assert READER.read(messages.location_content(body)) == {
        "kind": "location", "latitude": 32.1, "longitude": 34.8, "name": "Here",
    }  # fmt: skip


def test_contacts_by_card_and_by_fields() -> None:
    card = "BEGIN:VCARD\nVERSION:3.0\nFN:Dana\nTEL:+972500000077\nEND:VCARD"
    body = bodies.Contacts.model_validate(
        {
            "chatId": CHAT,
            "contacts": [
                {"vcard": card},
                {"fullName": "Noa", "phoneNumber": "+972 50-000-0078", "vcard": None},
                {"fullName": "A; B", "organization": "X,\nEND:VCARD", "whatsappId": "972500000079"},
            ],
        }
    )
    first, second, third = READER.read(messages.contacts_content(body))["contacts"]
    assert first == {"name": "Dana", "vcard": card}
    assert second == {"name": "Noa", "phone": "972500000078"}
    assert "FN:A\\; B" in third["vcard"].splitlines()
    # a line break in a field must not end the card
    assert third["vcard"].splitlines().count("END:VCARD") == 1


def test_a_contact_without_a_number_is_refused() -> None:
    for card in ({"fullName": "Noa"}, {"phoneNumber": "972500000078"}, {"fullName": "Noa", "phoneNumber": "12"}):
        body = bodies.Contacts.model_validate({"chatId": CHAT, "contacts": [card]})
        with pytest.raises(InvalidBody):
            messages.contacts_content(body)


@pytest.mark.parametrize(("several", "selectable"), [(None, 1), (False, 1), (True, 3)])
def test_polls(several: bool | None, selectable: int) -> None:
    poll = {"name": "When?", "options": ["a", "b", "c"], "multipleAnswers": several}
    body = bodies.Poll.model_validate({"chatId": CHAT, "poll": poll})
    assert READER.read(messages.poll_content(body))["selectable"] == selectable


def test_a_reply_names_its_message() -> None:
    ref = MessageRef(wa_message_id="AA", mine=False, chat=CHAT, participant="972509999999@c.us")
    sent = messages.send_body("default", CHAT, {"text": "yes"}, reply_to=ref)
    assert isinstance(sent.message, dict)
    assert READER.read(sent.message)["quote"] == {
        "waMessageId": "AA", "fromMe": False, "participant": "972509999999@s.whatsapp.net",
    }  # fmt: skip


def test_a_reaction_names_its_message() -> None:
    content = messages.reaction_content("👍", MessageRef(wa_message_id="AA", mine=True, chat=CHAT))
    assert READER.read(content) == {"kind": "reaction", "emoji": "👍", "target": {"waMessageId": "AA", "fromMe": True}}


def test_the_answer_is_a_waha_message_that_is_pending() -> None:
    ours = {"queued": True, "messageId": "msg_0123456789abcdef01", "sessionId": "default", "estimatedSendAt": None}
    told = messages.queued_message(ours, chat=CHAT, me="972500000001", at_ms=1_700_000_000_123, content={"text": "hi"})
    assert told["id"] == "true_972501234567@c.us_3EB00123456789ABCDEF01"
    assert (told["from"], told["to"], told["body"]) == ("972500000001@c.us", CHAT, "hi")
    assert (told["ack"], told["ackName"], told["timestamp"], told["fromMe"]) == (0, "PENDING", 1_700_000_000, True)
    assert told["key"] == {
        "remoteJid": "972501234567@s.whatsapp.net", "fromMe": True, "id": "3EB00123456789ABCDEF01",
    }  # fmt: skip
    assert told["_data"] == ours


def test_fields_that_only_matter_to_waha_s_engines_are_passed_over() -> None:
    body = bodies.Text.model_validate(
        {"session": "default", "chatId": CHAT, "text": "hi", "linkPreview": True, "id": "BBBB", "mentions": None}
    )
    assert messages.text_content(body) == {"text": "hi"}
