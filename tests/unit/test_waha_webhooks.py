"""Our events as WAHA's webhooks; WAHA's webhooks as our subscriptions."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from waha.generated import models as waha_models

from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator.waha import bodies
from wa_orchestrator.waha.delivery import waha_request
from wa_orchestrator.waha.envelope import KNOWN_EVENTS, LINES, event_for, events_of
from wa_orchestrator.waha.subscriptions import (
    HIDDEN,
    events_wanted_by,
    shown_webhooks,
    subscriptions,
    with_hidden_filled,
)

FACTS = {
    "phone": "972500000001",
    "jid": "972500000001:3@s.whatsapp.net",
    "lid": "77@lid",
    "name": "Shop",
    "label": "",
    "metadata": {"customer": "7"},
}
TEXT = {
    "waMessageId": "AA01", "from": "972501234567", "fromLid": "99@lid", "chat": "972501234567@s.whatsapp.net",
    "isGroup": False, "kind": "text", "text": "hello", "timestamp": 1_700_000_000_000, "offline": False,
}  # fmt: skip


def entry(kind: str, data: dict[str, Any], *, number: int = 42) -> JournalEntry:
    return JournalEntry(number=number, type=kind, session_id="default", at=1_700_000_000_500, data=data)


def received(**more: Any) -> JournalEntry:
    return entry("MESSAGE_RECEIVED", {**TEXT, **more})


def webhook(*events: str, **more: Any) -> bodies.Webhook:
    return bodies.Webhook.model_validate({"url": "https://a.example/hook", "events": list(events), **more})


def posted(what: JournalEntry, *events: str, key: str = "") -> tuple[dict[str, Any], dict[str, str]]:
    """Body and headers of the one request that this webhook gets."""
    given = webhook(*events, **({"hmac": {"key": key}} if key else {}))
    made = [
        waha_request(what, one, FACTS, 1_700_000_009_000)
        for one in subscriptions("default", [given], base_url="http://wa.example:3000")
    ]
    (request,) = [one for one in made if one]
    return json.loads(request[0]), request[1]


# what is told -----------------------------------------------------------------------------------------------------
def test_an_incoming_text() -> None:
    body, headers = posted(received(), "message")
    assert (body["event"], body["session"], body["engine"]) == ("message", "default", "NOWEB")
    assert body["metadata"] == {"customer": "7"}
    assert body["me"] == {
        "id": "972500000001@c.us", "lid": "77@lid", "jid": "972500000001:3@s.whatsapp.net", "pushName": "Shop",
    }  # fmt: skip
    told = body["payload"]
    assert told["id"] == "false_972501234567@c.us_AA01"
    assert (told["from"], told["to"], told["fromMe"]) == ("972501234567@c.us", "972500000001@c.us", False)
    assert (told["body"], told["hasMedia"], told["timestamp"]) == ("hello", False, 1_700_000_000)
    assert "X-Webhook-Hmac" not in headers


def test_the_payload_fits_the_models_that_a_client_makes_from_waha_s_document() -> None:
    told, _ = posted(received(), "message")
    # its document says that these are always texts; WAHA itself leaves them empty outside groups and without files
    filled = {**told["payload"], "participant": "", "mediaUrl": ""}
    message = waha_models.WAMessage.model_validate(filled)
    assert (message.body, message.from_) == ("hello", "972501234567@c.us")

    ack, _ = posted(entry("message.read", {"to": TEXT["chat"], "waMessageId": "AA"}), "message.ack")
    assert waha_models.WAMessageAckBody.model_validate({**ack["payload"], "participant": ""}).ackName == "READ"

    status, _ = posted(entry("session.status", {"status": "connected", "was": "qr_ready"}), "session.status")
    assert waha_models.WASessionStatusBody.model_validate(status["payload"]).status.value == "WORKING"
    assert waha_models.MeInfo.model_validate(status["me"]).id == "972500000001@c.us"
    assert waha_models.WAHAEnvironment.model_validate({**status["environment"], "browser": ""}).engine == "NOWEB"


def test_a_group_message_names_who_wrote_it() -> None:
    told = posted(received(chat="1203630@g.us", isGroup=True), "message")[0]["payload"]
    assert (told["from"], told["participant"]) == ("1203630@g.us", "972501234567@c.us")
    assert told["id"] == "false_1203630@g.us_AA01_972501234567@c.us"


def test_a_file_has_an_address_where_the_receiver_reaches_us() -> None:
    file = {"kind": "image", "mimetype": "image/png", "sizeBytes": 3, "state": "pending", "mediaId": "in_ab"}
    told = posted(received(kind="image", text="look", media=file), "message")[0]["payload"]
    assert told["media"]["url"] == "http://wa.example:3000/api/v1/sessions/default/media/in_ab"
    assert (told["hasMedia"], told["body"], told["mediaUrl"]) == (True, "look", told["media"]["url"])

    del file["mediaId"]
    told = posted(received(kind="image", media={**file, "state": "too_large"}), "message")[0]["payload"]
    assert told["hasMedia"]
    assert told["media"]["url"] is None
    assert "too_large" in told["media"]["error"]["message"]


def test_reactions_edits_and_deletions_have_events_of_their_own() -> None:
    reaction = received(kind="reaction", reaction={"waMessageId": "BB", "emoji": "👍"}, text="👍")
    assert posted(reaction, "message.reaction")[0]["payload"]["reaction"] == {"text": "👍", "messageId": "BB"}
    edit = received(kind="edit", edit={"waMessageId": "BB", "text": "new"}, text="new")
    assert posted(edit, "message.edited")[0]["payload"]["editedMessageId"] == "BB"
    deletion = received(kind="delete", deletion={"waMessageId": "BB"}, text=None)
    assert posted(deletion, "message.revoked")[0]["payload"]["revokedMessageId"] == "BB"
    for one in (reaction, edit, deletion, received(kind="poll_vote")):
        assert event_for(one, {"message", "message.any"}) is None


def test_an_answer_names_what_it_answers() -> None:
    told = posted(received(replyTo={"waMessageId": "BB", "text": "before"}), "message")[0]["payload"]
    assert told["replyTo"] == {"id": "BB", "participant": None, "body": "before", "hasMedia": False}


@pytest.mark.parametrize(
    ("state", "ack", "name"),
    [("sent", 1, "SERVER"), ("delivered", 2, "DEVICE"), ("read", 3, "READ"), ("played", 4, "PLAYED"),
     ("failed", -1, "ERROR")],
)  # fmt: skip
def test_how_far_a_message_got(state: str, ack: int, name: str) -> None:
    told = posted(entry(f"message.{state}", {"to": TEXT["chat"], "waMessageId": "AA"}), "message.ack")[0]["payload"]
    assert (told["id"], told["ack"], told["ackName"]) == ("true_972501234567@c.us_AA", ack, name)
    assert told["fromMe"]


def test_states_that_look_the_same_to_waha_are_told_once() -> None:
    assert events_of(entry("session.status", {"status": "reconnecting", "was": "pending"})) == ("state.change",)
    assert "session.status" in events_of(entry("session.status", {"status": "reconnecting", "was": "connected"}))
    assert "session.status" in events_of(entry("session.status", {"status": "pending", "was": ""}))


def test_events_that_mean_nothing_to_waha_are_none() -> None:
    for kind in ("proxy.bad", "PING", "message.queued", "lane.slowed", "session.moved"):
        assert events_of(entry(kind, {})) == ()


def test_message_and_message_any_are_two_requests_with_two_ids() -> None:
    made = subscriptions("default", [webhook("message", "message.any")], base_url="")
    requests = [json.loads(found[0]) for one in made if (found := waha_request(received(), one, FACTS, 0))]
    assert {one["event"] for one in requests} == {"message", "message.any"}
    assert len({one["id"] for one in requests}) == 2


def test_no_entry_is_two_events_of_one_line() -> None:
    """Or one of them would never be told."""
    kinds = [received(), received(kind="reaction"), entry("message.sent", {}),
             entry("session.status", {"status": "connected", "was": "pending"})]  # fmt: skip
    for one in kinds:
        for line in LINES:
            assert len([event for event in events_of(one) if event in line]) <= 1


def test_the_signature_is_over_the_raw_body_and_a_repeat_is_the_same_request() -> None:
    (subscription,) = subscriptions("default", [webhook("message", hmac={"key": "s3cret"})], base_url="")
    first, second = (waha_request(received(), subscription, FACTS, at) for at in (1000, 2000))
    assert first
    assert second
    assert first[0] == second[0]
    body, headers = second
    assert headers["X-Webhook-Hmac"] == hmac.new(b"s3cret", body, hashlib.sha512).hexdigest()
    assert headers["X-Webhook-Hmac-Algorithm"] == "sha512"
    assert headers["X-Webhook-Timestamp"] == "2000"
    assert headers["X-Webhook-Request-Id"] == first[1]["X-Webhook-Request-Id"]


# what is wanted ---------------------------------------------------------------------------------------------------
def test_a_star_wants_all_and_unknown_events_want_nothing() -> None:
    made = subscriptions("default", [webhook("*")], base_url="")
    assert frozenset().union(*map(events_wanted_by, made)) == KNOWN_EVENTS
    assert subscriptions("default", [webhook("presence.update", "call.received")], base_url="") == []
    assert subscriptions("default", [webhook()], base_url="") == []


def test_one_made_by_hand_is_told_the_usual_events_of_all_sessions() -> None:
    by_hand = Webhook(webhook_id="wh_1", url="https://a.example", format="waha", secret="s3cret")
    request = waha_request(received(), by_hand, FACTS, 0)
    assert request
    assert json.loads(request[0])["event"] == "message"
    assert waha_request(entry("proxy.bad", {}), by_hand, {}, 0) is None


def test_an_operator_s_test_is_posted_as_such() -> None:
    (subscription,) = subscriptions("default", [webhook("message")], base_url="")
    request = waha_request(entry("webhook.test", {"webhookId": "wh_1"}, number=0), subscription, FACTS, 0)
    assert request
    assert json.loads(request[0])["event"] == "webhook.test"


def test_the_same_wish_is_the_same_subscription() -> None:
    once, again, other = (
        [one.webhook_id for one in subscriptions(session, [webhook("*"), webhook("message")], base_url="")]
        for session in ("a", "a", "b")
    )
    assert once == again
    assert not set(once) & set(other)
    assert len(set(once)) == 3


def test_secrets_are_hidden_and_what_is_hidden_comes_back_unharmed() -> None:
    given = webhook("*", hmac={"key": "s3cret"}, customHeaders=[{"name": "X-Token", "value": "t0ken"}])
    kept = subscriptions("default", [given], base_url="")
    (shown,) = shown_webhooks(kept)
    assert "s3cret" not in json.dumps(shown)
    assert "t0ken" not in json.dumps(shown)
    assert shown["hmac"] == {"key": HIDDEN}
    assert set(shown["events"]) == KNOWN_EVENTS

    back = bodies.Webhook.model_validate(shown)
    (filled,) = with_hidden_filled([back], shown_webhooks(kept, open_secrets=True))
    assert subscriptions("default", [filled], base_url="") == kept
