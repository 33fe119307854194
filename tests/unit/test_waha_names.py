"""WAHA's words for ours."""

from __future__ import annotations

import pytest

from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.waha.names import ack_of, chat_id, message_id, read_message_id, status_name, status_of


def test_every_state_has_a_name_that_waha_knows() -> None:
    known = {"STOPPED", "STARTING", "SCAN_QR_CODE", "WORKING", "FAILED"}
    assert {status_name(status) for status in Status} == known


@pytest.mark.parametrize("status", [Status.RECONNECTING, Status.DISCONNECTED, Status.UNHEALTHY])
def test_what_comes_back_by_itself_is_not_called_failed(status: Status) -> None:
    assert status_name(status) == "STARTING"


def test_a_session_that_is_being_stopped_is_stopped() -> None:
    session = Session(session_id="a", status=Status.CONNECTED, wanted=Wanted.STOPPED, created_at=0)
    assert status_of(session) == "STOPPED"


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("972501234567", "972501234567@c.us"),
        ("972501234567@s.whatsapp.net", "972501234567@c.us"),
        ("972501234567:7@s.whatsapp.net", "972501234567@c.us"),
        ("972501234567@c.us", "972501234567@c.us"),
        ("123456789@lid", "123456789@lid"),
        ("120363000000000000@g.us", "120363000000000000@g.us"),
    ],
)
def test_chats_are_named_as_waha_names_them(ours: str, theirs: str) -> None:
    assert chat_id(ours) == theirs


def test_a_message_id_is_read_as_it_was_written() -> None:
    person = message_id(mine=True, chat="972501234567@s.whatsapp.net", wa_message_id="3EB0AA")
    assert person == "true_972501234567@c.us_3EB0AA"
    found = read_message_id(person)
    assert (found.mine, found.chat, found.wa_message_id) == (True, "972501234567@c.us", "3EB0AA")

    group = message_id(mine=False, chat="1203630@g.us", wa_message_id="BB", participant="972509999999")
    assert group == "false_1203630@g.us_BB_972509999999@c.us"
    assert read_message_id(group).participant == "972509999999@c.us"


def test_a_bare_id_says_nothing_about_its_chat() -> None:
    for text in ("3EB0AA", "msg_0123456789abcdef01", "true_nowhere_3EB0AA", "true_123456@c.us_3EB0 AA"):
        found = read_message_id(text)
        assert (found.wa_message_id, found.mine, found.chat) == (text, None, "")


def test_what_is_not_sent_yet_is_pending() -> None:
    assert [ack_of(state)[1] for state in ("accepted", "queued", "outbox", "claimed")] == ["PENDING"] * 4
    assert [ack_of(state)[0] for state in ("failed", "sent", "delivered", "read", "played")] == [-1, 1, 2, 3, 4]
