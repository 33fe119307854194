"""A WAHA client of somebody else (`waha-py` from PyPI, made from WAHA's own OpenAPI document), unchanged."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from waha import WahaClient, models

from support.small_receiver import SmallReceiver, small_receiver
from support.system import System, wait_for

KEY = "invented-hmac-key"


@pytest.fixture
def receiver() -> Iterator[SmallReceiver]:
    with small_receiver() as found:
        yield found


@pytest.fixture
def client(system: System) -> Iterator[WahaClient]:
    found = WahaClient(f"{system.api.base}/waha", api_key=system.ready["apiKey"])
    yield found
    found._http.close()


def _told(receiver: SmallReceiver, event: str, **payload: Any) -> dict[str, Any]:
    """The first webhook of this event whose payload holds these values."""

    def look() -> dict[str, Any] | None:
        for one in receiver.posted:
            body = one.json
            if body["event"] == event and payload.items() <= body["payload"].items():
                return body
        return None

    return wait_for(look, what=f"the webhook {event} {payload}")


def _text(session: str, chat: str, text: str, *, reply_to: str | None = None) -> models.MessageTextRequest:
    """As a program writes it that uses the client's models: every field is sent, also the empty ones."""
    return models.MessageTextRequest.model_validate(
        {"session": session, "chatId": chat, "text": text, "reply_to": reply_to}
    )


def test_it_makes_a_session_reads_the_code_sends_a_text_and_gets_its_webhooks(
    system: System, client: WahaClient, receiver: SmallReceiver, phone: str, other_phone: str
) -> None:
    system.simulator.post("/phones", {"phone": other_phone})
    webhook = {
        "url": receiver.url,
        "events": ["session.status", "message", "message.any", "message.ack"],
        "hmac": {"key": KEY},
        "retries": {"policy": "constant", "delaySeconds": 2, "attempts": 15},
        "customHeaders": [{"name": "X-Customer", "value": "7"}],
    }
    made = client.sessions.create({"name": "shop", "config": {"metadata": {"customer": "7"}, "webhooks": [webhook]}})
    assert models.SessionDTO.model_validate({"name": made["name"], "status": made["status"]}).name == "shop"

    # the code, in the forms the client asks for
    def code() -> str | None:
        try:
            return models.QRCodeValue.model_validate(client.auth.get_qr("shop", {"format": "raw"})).value
        except httpx.HTTPStatusError as error:
            if error.response.json()["error"]["code"] == "QR_NOT_READY":
                return None
            raise

    text = wait_for(code, what="the code")
    picture = models.Base64File.model_validate(client.auth.get_qr("shop"))
    assert picture.mimetype == "image/png"
    assert base64.b64decode(picture.data).startswith(b"\x89PNG")
    assert _told(receiver, "session.status", status="SCAN_QR_CODE")["me"] is None

    system.simulator.post(f"/phones/{phone}/scan", {"qr": text})
    wait_for(lambda: client.sessions.get("shop")["status"] == "WORKING", what="the session to work")
    system.unpaced("shop")
    me = models.MeInfo.model_validate(client.sessions.get_me("shop"))
    assert me.id == f"{phone}@c.us"
    working = _told(receiver, "session.status", status="WORKING")
    assert (working["session"], working["metadata"], working["me"]["id"]) == ("shop", {"customer": "7"}, me.id)

    # a text there
    assert client.contacts.check_exists({"phone": other_phone, "session": "shop"})["numberExists"] is True
    assert client.contacts.check_exists({"phone": "972529999999", "session": "shop"})["numberExists"] is False
    asked = _text("shop", f"{other_phone}@c.us", "שלום from WAHA")
    sent = client.chatting.send_text(asked)
    assert (sent["ackName"], sent["to"]) == ("PENDING", f"{other_phone}@c.us")
    (entry,) = wait_for(lambda: system.inbox(other_phone), what="the text to arrive")
    assert (entry["text"], entry["copies"]) == ("שלום from WAHA", 1)
    assert _told(receiver, "message.ack", id=sent["id"], ackName="SERVER")
    assert _told(receiver, "message.ack", id=sent["id"], ackName="DEVICE")
    assert _told(receiver, "message.any", id=sent["id"], fromMe=True)

    # and one back, with an answer to it
    system.simulator.post(f"/phones/{other_phone}/send", {"to": phone, "text": "thank you"})
    came = _told(receiver, "message", body="thank you")
    assert (came["payload"]["from"], came["payload"]["to"]) == (f"{other_phone}@c.us", f"{phone}@c.us")
    assert _told(receiver, "message.any", id=came["payload"]["id"])["id"] != came["id"]
    client.chatting.send_seen({"session": "shop", "chatId": came["payload"]["from"],
                               "messageIds": [came["payload"]["id"]]})  # fmt: skip
    wait_for(lambda: system.simulator.get(f"/phones/{other_phone}/sent")[-1]["status"] == "read", what="it to be read")
    client.chatting.send_text(_text("shop", came["payload"]["from"], "welcome", reply_to=came["payload"]["id"]))
    client.chatting.set_reaction({"session": "shop", "messageId": came["payload"]["id"], "reaction": "👍"})

    def answered() -> dict[str, Any] | None:
        found = {str(one.get("kind")): one for one in system.inbox(other_phone)[1:]}
        return found if {"text", "reaction"} <= set(found) else None

    found = wait_for(answered, what="the answer and the reaction")
    assert came["payload"]["id"].endswith(found["text"]["quotedId"])

    # a file, at the address that the webhook names
    file = {"base64": base64.b64encode(b"a small picture").decode(), "mimetype": "image/png"}
    system.simulator.post(f"/phones/{other_phone}/send", {"to": phone, "image": file, "caption": "look"})
    media = _told(receiver, "message", body="look", hasMedia=True)["payload"]["media"]

    def fetched() -> bytes | None:
        answer = httpx.get(media["url"], headers={"X-Api-Key": system.ready["apiKey"]})
        assert answer.status_code in {200, 409}, answer.text  # 409: it is still being fetched
        return answer.content if answer.status_code == 200 else None

    assert wait_for(fetched, what="the file") == b"a small picture"

    for one in receiver.posted:
        assert one.headers["x-webhook-hmac"] == hmac.new(KEY.encode(), one.body, hashlib.sha512).hexdigest()
        assert one.headers["x-webhook-hmac-algorithm"] == "sha512"
        assert one.headers["x-customer"] == "7"
        assert one.headers["x-webhook-request-id"] == one.json["id"]

    client.sessions.stop("shop")
    _told(receiver, "session.status", status="STOPPED")
    client.sessions.delete("shop")
    with pytest.raises(httpx.HTTPStatusError, match="404"):
        client.sessions.get("shop")
