"""What a message says: every kind in its forms, each mistake with its field, and nothing the worker cannot read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from wa_orchestrator.errors import InvalidBody, TooLarge
from wa_orchestrator.gateway.content import ContentReader, message_id_of, wa_id_of

PROTOCOL = Path(__file__).parents[2] / "protocol"
READER = ContentReader(max_text=200, max_media_bytes=1000)
FILE = "aGVsbG8="


def _validator() -> Draft202012Validator:
    schemas = [json.loads(file.read_text()) for file in PROTOCOL.glob("*.schema.json")]
    registry: Registry[Any] = Registry().with_resources(
        [(schema["$id"], Resource.from_contents(schema)) for schema in schemas]
    )
    return Draft202012Validator(
        {"$ref": "https://wa-orchestrator.example/protocol/content.schema.json"}, registry=registry
    )


VALIDATOR = _validator()


@pytest.mark.parametrize(
    ("message", "content"),
    [
        ("hello", {"kind": "text", "text": "hello"}),
        ({"text": "hi"}, {"kind": "text", "text": "hi"}),
        ({"text": "@x", "mentions": ["+972 50-000-0003"]},
         {"kind": "text", "text": "@x", "mentions": ["972500000003@s.whatsapp.net"]}),
        ({"image": "https://x.example/a.jpg"}, {"kind": "image", "media": {"url": "https://x.example/a.jpg"}}),
        ({"image": {"url": "https://x.example/a"}, "caption": "look"},
         {"kind": "image", "media": {"url": "https://x.example/a"}, "caption": "look"}),
        ({"image": {"base64": f"data:image/png;base64,{FILE}", "caption": "c"}},
         {"kind": "image", "media": {"base64": FILE}, "caption": "c"}),
        ({"video": {"mediaId": "med_1"}, "gif": True}, {"kind": "video", "media": {"mediaId": "med_1"}, "gif": True}),
        ({"audio": {"base64": FILE}}, {"kind": "audio", "media": {"base64": FILE}}),
        ({"voice": {"data": FILE}}, {"kind": "audio", "media": {"base64": FILE}, "voice": True}),
        ({"audio": {"base64": FILE, "voice": True}}, {"kind": "audio", "media": {"base64": FILE}, "voice": True}),
        ({"document": {"base64": FILE, "fileName": "a.pdf"}, "mimetype": "application/pdf"},
         {"kind": "document", "media": {"base64": FILE, "fileName": "a.pdf", "mimetype": "application/pdf"}}),
        ({"sticker": {"base64": FILE}}, {"kind": "sticker", "media": {"base64": FILE}}),
        ({"location": {"latitude": 32, "longitude": 34.7, "name": "n", "address": "a"}},
         {"kind": "location", "latitude": 32, "longitude": 34.7, "name": "n", "address": "a"}),
        ({"contact": {"name": "Dana", "phone": "+972500000003"}},
         {"kind": "contact", "contacts": [{"name": "Dana", "phone": "972500000003"}]}),
        ({"contact": [{"name": "A", "vcard": "BEGIN:VCARD"}, {"name": "B", "phone": "972500000003"}]},
         {"kind": "contact",
          "contacts": [{"name": "A", "vcard": "BEGIN:VCARD"}, {"name": "B", "phone": "972500000003"}]}),
        ({"reaction": {"emoji": "👍", "messageId": "msg_ab12"}},
         {"kind": "reaction", "emoji": "👍", "target": {"waMessageId": "3EB0AB12", "fromMe": True}}),
        ({"reaction": {"emoji": "", "messageId": "3A01", "fromMe": False, "participant": "972500000003"}},
         {"kind": "reaction", "emoji": "",
          "target": {"waMessageId": "3A01", "fromMe": False, "participant": "972500000003@s.whatsapp.net"}}),
        ({"poll": {"question": "When?", "options": ["a", "b"]}},
         {"kind": "poll", "question": "When?", "options": ["a", "b"], "selectable": 1}),
        ({"poll": {"name": "When?", "options": ["a", "b"], "selectable": 0}},
         {"kind": "poll", "question": "When?", "options": ["a", "b"], "selectable": 0}),
        ({"text": "yes", "quote": "3A01"},
         {"kind": "text", "text": "yes", "quote": {"waMessageId": "3A01", "fromMe": False}}),
        ({"text": "yes", "quote": {"messageId": "msg_1f", "text": "what I said"}},
         {"kind": "text", "text": "yes", "quote": {"waMessageId": "3EB01F", "fromMe": True, "text": "what I said"}}),
    ],
)  # fmt: skip
def test_each_kind_is_read_in_each_form(message: object, content: dict[str, Any]) -> None:
    found = READER.read(message)
    assert found == content
    VALIDATOR.validate(found)


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (5, "message"),
        (None, "message"),
        ([], "message"),
        ({}, "message"),
        ("", "message"),
        ("  \n", "message"),
        ("x" * 201, "message"),
        ("\ud800", "message"),
        ({"text": "a", "image": "https://x"}, "message"),
        ({"dance": 1}, "message"),
        ({"text": 5}, "message.text"),
        ({"text": "a", "caption": "b"}, "message.caption"),
        ({"text": "a", "mentions": "972500000003"}, "message.mentions"),
        ({"text": "a", "mentions": ["nobody"]}, "message.mentions"),
        ({"image": 5}, "message.image"),
        ({"image": {}}, "message.image"),
        ({"image": {"url": "https://x", "base64": FILE}}, "message.image"),
        ({"image": {"url": "file:///etc/passwd"}}, "message.image.url"),
        ({"image": "ftp://x"}, "message.image.url"),
        ({"image": "https://a b"}, "message.image.url"),
        ({"image": "https://\ud800"}, "message.image.url"),
        ({"image": {"url": 5}}, "message.image.url"),
        ({"image": {"base64": "!!"}}, "message.image.base64"),
        ({"image": {"base64": ""}}, "message.image.base64"),
        ({"image": {"base64": "data:image/png"}}, "message.image.base64"),
        ({"image": {"mediaId": " "}}, "message.image.mediaId"),
        ({"image": {"url": "https://x", "size": 5}}, "message.image.size"),
        ({"image": {"url": "https://x", "caption": 5}}, "message.image.caption"),
        ({"document": {"url": "https://x"}, "fileName": "x" * 301}, "message.document.fileName"),
        ({"video": {"url": "https://x"}, "gif": "yes"}, "message.video"),
        ({"location": "here"}, "message.location"),
        ({"location": {"latitude": 91, "longitude": 0}}, "message.location.latitude"),
        ({"location": {"latitude": True, "longitude": 0}}, "message.location.latitude"),
        ({"location": {"latitude": 1}}, "message.location.longitude"),
        ({"location": {"latitude": 1, "longitude": 1, "altitude": 1}}, "message.location.altitude"),
        ({"contact": []}, "message.contact"),
        ({"contact": {"name": "A"}}, "message.contact"),
        ({"contact": {"phone": "972500000003"}}, "message.contact.name"),
        ({"contact": {"name": "A", "phone": "12"}}, "message.contact.phone"),
        ({"contact": {"name": "A", "phone": "123456789-987654@g.us"}}, "message.contact.phone"),
        ({"contact": {"name": "A", "vcard": ""}}, "message.contact.vcard"),
        ({"reaction": {"messageId": "3A"}}, "message.reaction.emoji"),
        ({"reaction": {"emoji": "👍"}}, "message.reaction.messageId"),
        ({"reaction": {"emoji": "👍", "messageId": "3A", "fromMe": "yes"}}, "message.reaction.fromMe"),
        ({"reaction": {"emoji": "👍", "messageId": "3A", "participant": "nobody"}}, "message.reaction.participant"),
        ({"poll": {"question": "?", "options": ["a"]}}, "message.poll.options"),
        ({"poll": {"question": "?", "options": ["a", "a"]}}, "message.poll.options"),
        ({"poll": {"question": "?", "options": ["a", 5]}}, "message.poll.options"),
        ({"poll": {"question": "?", "options": [str(n) for n in range(13)]}}, "message.poll.options"),
        ({"poll": {"options": ["a", "b"]}}, "message.poll.question"),
        ({"poll": {"question": "?", "options": ["a", "b"], "selectable": 3}}, "message.poll.selectable"),
        ({"text": "a", "quote": 5}, "message.quote"),
        ({"text": "a", "quote": {"text": "b"}}, "message.quote.messageId"),
    ],
)
def test_each_mistake_is_told_with_its_field(message: object, field: str) -> None:
    with pytest.raises(InvalidBody) as refused:
        READER.read(message)
    assert refused.value.details == {"field": field}


def test_a_file_that_is_too_large_is_said_to_be() -> None:
    with pytest.raises(TooLarge):
        READER.read({"image": {"base64": "A" * 2000}})


def test_our_ids_and_whatsapps_are_the_same_number() -> None:
    assert message_id_of(wa_id_of("msg_0a1b")) == "msg_0a1b"
    assert wa_id_of("0a1b") == "3EB00A1B"


def test_reading_leaves_the_callers_body_as_it_was() -> None:
    body = {"image": {"url": "https://x", "caption": "c", "mimetype": "m"}, "quote": {"messageId": "3A"}}
    before = json.dumps(body)
    READER.read(body)
    assert json.dumps(body) == before


# fuzzing: whatever comes, valid content or a refusal that names a field ---------------------------------------------
words = st.text(max_size=12) | st.sampled_from(
    [FILE, "https://x.example/a", "972500000003", "msg_ab", "3A01", "x@g.us"]
)
leaves = st.none() | st.booleans() | st.integers(-200, 200) | st.floats() | words
names = st.sampled_from(["text", "image", "video", "audio", "voice", "document", "sticker", "location", "contact",
                         "reaction", "poll", "caption", "mentions", "quote", "fileName", "mimetype", "gif", "url",
                         "base64", "data", "mediaId", "latitude", "longitude", "name", "address", "phone", "vcard",
                         "emoji", "messageId", "fromMe", "participant", "question", "options",
                         "selectable"])  # fmt: skip
anything = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | words, inner, max_size=4),
    max_leaves=10,
)
optional = st.none() | anything
likely = st.one_of(
    st.fixed_dictionaries({"text": words}, optional={"mentions": optional, "quote": optional}),
    *(st.fixed_dictionaries(
        {kind: st.fixed_dictionaries({}, optional={"url": words, "base64": words, "mediaId": words, "caption": optional,
                                                   "voice": optional, "gif": optional})},
        optional={"caption": optional, "fileName": optional, "mimetype": optional, "quote": optional},
      ) for kind in ("image", "video", "audio", "voice", "document", "sticker")),
    st.fixed_dictionaries({"location": st.fixed_dictionaries(
        {"latitude": st.floats(-91, 91), "longitude": st.floats(-181, 181)}, optional={"name": optional})}),
    st.fixed_dictionaries({"contact": st.fixed_dictionaries({"name": words, "phone": words}) | optional}),
    st.fixed_dictionaries({"reaction": st.fixed_dictionaries(
        {"emoji": words, "messageId": words}, optional={"fromMe": optional, "participant": optional})}),
    st.fixed_dictionaries({"poll": st.fixed_dictionaries(
        {"question": words, "options": st.lists(words, max_size=14)}, optional={"selectable": optional})}),
)  # fmt: skip


@settings(max_examples=400)
@given(anything | likely)
def test_any_value_is_valid_content_or_refused_with_a_field(message: object) -> None:
    try:
        content = READER.read(message)
    except TooLarge:
        return
    except InvalidBody as error:
        field = (error.details or {}).get("field", "")
    else:
        VALIDATOR.validate(content)
        json.dumps(content, ensure_ascii=False).encode()
        return
    assert str(field).startswith("message")
