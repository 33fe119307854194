"""Who a message goes to: one full WhatsApp id, however it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.errors import InvalidRecipient
from wa_orchestrator.gateway.recipient import recipient_jid, recipient_key


@pytest.mark.parametrize(
    ("text", "jid"),
    [
        ("972501234567", "972501234567@s.whatsapp.net"),
        ("+972 50-123-4567", "972501234567@s.whatsapp.net"),
        ("972501234567@c.us", "972501234567@s.whatsapp.net"),
        ("972501234567@s.whatsapp.net", "972501234567@s.whatsapp.net"),
        ("9720501234567", "972501234567@s.whatsapp.net"),
        ("123456789-1600000000@g.us", "123456789-1600000000@g.us"),
        ("120363000000000000@g.us", "120363000000000000@g.us"),
        ("12345678901234@lid", "12345678901234@lid"),
        (" 12345678901234@lid ", "12345678901234@lid"),
    ],
)
def test_each_form_gives_the_full_id(text: str, jid: str) -> None:
    assert recipient_jid(text) == jid


@pytest.mark.parametrize(
    "text", ["", "123", "0501234567", "hello", "972501234567@example.com", "@g.us", "abc@g.us", "9725012345678901234",
             "972501234567@s.whatsapp.net@g.us", "٩٧٢٥٠١٢٣٤٥٦٧"]
)  # fmt: skip
def test_what_is_no_recipient_is_refused_with_the_field(text: str) -> None:
    with pytest.raises(InvalidRecipient) as refused:
        recipient_jid(text)
    assert refused.value.details == {"field": "to"}


def test_the_store_names_a_person_by_the_number_and_a_group_by_its_id() -> None:
    assert recipient_key("972501234567@s.whatsapp.net") == "972501234567"
    assert recipient_key("120363000000000000@g.us") == "120363000000000000@g.us"


@given(st.text(max_size=40))
def test_any_text_gives_an_id_without_spaces_or_is_refused(text: str) -> None:
    try:
        jid = recipient_jid(text)
    except InvalidRecipient:
        return
    assert jid.count("@") == 1
    assert not any(c.isspace() for c in jid)
    assert recipient_jid(jid) == jid
