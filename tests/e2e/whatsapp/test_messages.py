"""Messages from the API to the simulated phone and back, with real Baileys and real encryption."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import struct
import urllib.request
import zlib
from typing import Any

import pytest

from support.system import System, wait_for


def _png(colour: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    pixels = zlib.compress(b"".join(b"\0" + bytes([colour, 0, 0]) * 8 for _ in range(8)))
    head = struct.pack(">IIBBBBB", 8, 8, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


PICTURE = _png(200)
_FILE = {"base64": base64.b64encode(PICTURE).decode()}

KINDS: dict[str, tuple[object, dict[str, Any]]] = {
    "text": ("שלום, hello 👋", {"kind": "text", "text": "שלום, hello 👋"}),
    "image": ({"image": {**_FILE, "caption": "look"}}, {"kind": "image", "caption": "look"}),
    "video": ({"video": {**_FILE, "mimetype": "video/mp4"}}, {"kind": "video"}),
    "audio": ({"audio": {**_FILE, "mimetype": "audio/mpeg"}}, {"kind": "audio"}),
    "voice": ({"voice": {**_FILE, "mimetype": "audio/ogg; codecs=opus"}}, {"kind": "audio"}),
    "document": ({"document": {**_FILE, "fileName": "a.pdf", "mimetype": "application/pdf"}}, {"kind": "document"}),
    "location": ({"location": {"latitude": 32.08, "longitude": 34.78, "name": "Here"}}, {"kind": "location"}),
    "contact": ({"contact": {"name": "Dana", "phone": "972500000077"}}, {"kind": "contact"}),
    "poll": ({"poll": {"question": "When?", "options": ["Today", "Tomorrow"], "selectable": 1}}, {"kind": "poll"}),
}


@pytest.fixture
def sender(system: System, phone: str, other_phone: str) -> str:
    session_id = system.connected(phone)
    system.unpaced(session_id)
    system.simulator.post("/phones", {"phone": other_phone})
    return session_id


def _send(system: System, to: str, message: object, **more: Any) -> str:
    return str(system.api.post("/api/v1/send", {"to": to, "message": message, **more})["messageId"])


def _status(system: System, message_id: str, *wanted: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = system.api.get(f"/api/v1/messages/{message_id}")
        assert found["status"] != "failed", found["reason"]
        return found if found["status"] in wanted else None

    return wait_for(look, what=f"{message_id} to be {wanted}")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_arrives_with_its_content(system: System, sender: str, other_phone: str, kind: str) -> None:
    message, expected = KINDS[kind]
    message_id = _send(system, other_phone, message, sessionId=sender)
    _status(system, message_id, "delivered", "read")
    (entry,) = system.inbox(other_phone)
    assert entry["copies"] == 1
    assert {name: entry.get(name) for name in expected} == expected
    if kind in {"image", "video", "audio", "voice", "document"}:
        assert entry["media"]["sha256"] == hashlib.sha256(PICTURE).hexdigest()
        assert entry["media"]["size"] == len(PICTURE)


def test_a_reply_a_mention_and_a_reaction_name_their_message(
    system: System, sender: str, phone: str, other_phone: str
) -> None:
    first = _send(system, other_phone, "first", sessionId=sender)
    wa_id = _status(system, first, "delivered")["waMessageId"]
    quote = {"text": "reply", "quote": {"messageId": first, "text": "first"}, "mentions": [other_phone]}
    reply = _send(system, other_phone, quote, sessionId=sender)
    _status(system, reply, "delivered")
    reaction = _send(system, other_phone, {"reaction": {"emoji": "👍", "messageId": first}}, sessionId=sender)
    _status(system, reaction, "sent", "delivered")
    wait_for(lambda: len(system.inbox(other_phone)) == 3, what="three entries")
    entries = {entry["id"]: entry for entry in system.inbox(other_phone)}
    reply_entry = next(e for e in entries.values() if e.get("text") == "reply")
    assert reply_entry["quotedId"] == wa_id
    assert reply_entry["mentions"]
    assert any(e.get("reaction", {}).get("emoji") == "👍" for e in entries.values())


def test_an_uploaded_file_is_sent_by_its_id(system: System, sender: str, other_phone: str) -> None:
    request = urllib.request.Request(
        system.api.base + "/api/v1/media", method="POST", data=PICTURE,
        headers={"X-Api-Key": system.ready["apiKey"], "Content-Type": "application/octet-stream"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=20) as answer:
        media_id = json.loads(answer.read())["mediaId"]
    message_id = _send(system, other_phone, {"image": {"mediaId": media_id}}, sessionId=sender)
    _status(system, message_id, "delivered")
    assert system.inbox(other_phone)[0]["media"]["size"] == len(PICTURE)


def test_reading_on_the_phone_is_told(system: System, sender: str, other_phone: str) -> None:
    message_id = _send(system, other_phone, "read me", sessionId=sender)
    _status(system, message_id, "delivered")
    system.simulator.post(f"/phones/{other_phone}/read")
    story = _status(system, message_id, "read")["story"]
    assert [s["what"] for s in story] == ["accepted", "queued", "outbox", "claimed", "sent", "delivered", "read"]


def test_a_number_that_is_not_on_whatsapp_fails_with_the_reason(system: System, sender: str) -> None:
    message_id = _send(system, "972541111111", "hello?", sessionId=sender)

    def failed() -> dict[str, Any] | None:
        found: dict[str, Any] = system.api.get(f"/api/v1/messages/{message_id}")
        return found if found["status"] == "failed" else None

    assert "NOT_ON_WHATSAPP" in wait_for(failed, what="the failure")["reason"]


def test_what_a_phone_writes_is_reported(system: System, sender: str, phone: str, other_phone: str) -> None:
    system.simulator.post(f"/phones/{other_phone}/send", {"to": phone, "text": "hello there"})
    (event,) = wait_for(lambda: system.events(sender, "MESSAGE_RECEIVED"), what="MESSAGE_RECEIVED")
    assert event["data"]["text"] == "hello there"
    assert event["data"]["from"] == other_phone


def test_a_missing_ack_is_repeated_with_the_same_id_and_shown_once(
    system: System, sender: str, phone: str, other_phone: str
) -> None:
    system.fault(noAcks=True, phone=phone)
    message_id = _send(system, other_phone, "in doubt", sessionId=sender)
    wait_for(lambda: system.inbox(other_phone), what="the first copy")
    system.fault(noAcks=False, phone=phone)
    _status(system, message_id, "sent", "delivered", "read")
    assert len(system.inbox(other_phone)) == 1


def test_a_message_in_the_hands_of_a_dead_worker_does_not_wait_for_its_lease(
    system: System, sender: str, phone: str, other_phone: str
) -> None:
    silent = f"97253{other_phone[5:]}"  # a receipt would tell the end of it, too
    system.simulator.post("/phones", {"phone": silent, "autoReceipt": "none"})
    system.fault(noAcks=True, phone=phone)
    message_id = _send(system, silent, "in dead hands", sessionId=sender)
    wait_for(lambda: system.inbox(silent), what="the first copy")
    os.kill(system.worker_pid(sender), signal.SIGKILL)
    system.fault(noAcks=False, phone=phone)
    # the lease is 120 s; a machine under load needs some seconds for a new worker
    found = _status(system, message_id, "sent")
    assert "lease_ended" in [step["what"] for step in found["story"]], "its successor got it"
    assert len(system.inbox(silent)) == 1, "the repeat has the same id"


def test_whatsapps_own_limit_stops_the_lane_and_says_so(
    system: System, sender: str, phone: str, other_phone: str
) -> None:
    system.fault(nackSends=463, phone=phone, count=1)
    message_id = _send(system, other_phone, "limited", sessionId=sender)

    def held() -> dict[str, Any] | None:
        found: dict[str, Any] = system.api.get(f"/api/v1/messages/{message_id}")
        return found if (found["waitingFor"] or {}).get("code") == "WHATSAPP_LIMIT" else None

    found = wait_for(held, what="the lane to stop")
    assert found["status"] == "queued"
    assert found["waitingFor"]["until"]


def test_messages_wait_in_order_while_the_session_is_down(system: System, sender: str, other_phone: str) -> None:
    system.api.post(f"/api/sessions/{sender}/stop")
    ids = [_send(system, other_phone, f"number {n}", sessionId=sender) for n in range(5)]
    waiting = system.api.get(f"/api/v1/messages/{ids[0]}")["waitingFor"]
    assert waiting["code"] == "SESSION_NOT_CONNECTED"
    system.api.post(f"/api/sessions/{sender}/start")
    for message_id in ids:
        _status(system, message_id, "sent", "delivered", "read")
    assert [e["text"] for e in system.inbox(other_phone)] == [f"number {n}" for n in range(5)]
