"""What people write, from the simulated phone to the API: every kind, files byte for byte, through kills."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import urllib.request
from typing import Any

import pytest

from support.system import Refused, System, wait_for

KINDS: dict[str, dict[str, Any]] = {
    "image": {"mimetype": "image/png"},
    "video": {"seconds": 2},
    "audio": {},
    "voice": {"seconds": 3},
    "document": {"fileName": "חשבונית.pdf", "mimetype": "application/pdf"},
    "sticker": {},
}


@pytest.fixture
def session(system: System, phone: str, other_phone: str) -> str:
    session_id = system.connected(phone)
    system.unpaced(session_id)
    system.simulator.post("/phones", {"phone": other_phone})
    return session_id


class Chat:
    """The other side of a session's conversation, and what the API says about it."""

    def __init__(self, system: System, session_id: str, me: str, other: str) -> None:
        self._system, self.session_id, self._me, self.other = system, session_id, me, other

    def does(self, what: str = "send", **body: Any) -> str:
        return str(self._system.simulator.post(f"/phones/{self.other}/{what}", {"to": self._me, **body})["id"])

    def received(self, wa_id: str) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            events = self._system.events(self.session_id, "MESSAGE_RECEIVED")
            return next((e["data"] for e in events if e["data"]["waMessageId"] == wa_id), None)

        return wait_for(look, what=f"MESSAGE_RECEIVED {wa_id}")

    def ready(self, media_id: str, *, timeout_s: float = 30) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            events = self._system.events(self.session_id, "MEDIA_READY")
            return next((e["data"] for e in events if e["data"]["mediaId"] == media_id), None)

        return wait_for(look, what=f"MEDIA_READY {media_id}", timeout_s=timeout_s)

    def file(self, media_id: str) -> bytes:
        url = f"{self._system.api.base}/api/v1/sessions/{self.session_id}/media/{media_id}"
        request = urllib.request.Request(url, headers={"X-Api-Key": self._system.ready["apiKey"]})
        with urllib.request.urlopen(request, timeout=20) as answer:
            body: bytes = answer.read()
            return body

    def messages(self) -> list[dict[str, Any]]:
        """Oldest first."""
        found = self._system.api.get(f"/api/v1/sessions/{self.session_id}/conversations/{self.other}/messages")
        return list(reversed(found["messages"]))


@pytest.fixture
def chat(system: System, session: str, phone: str, other_phone: str) -> Chat:
    return Chat(system, session, phone, other_phone)


def test_every_kind_arrives_and_files_are_the_same_bytes(system: System, chat: Chat) -> None:
    first = chat.does(text="hello")
    told = chat.received(first)
    assert told["from"] == chat.other
    assert told["fromLid"].endswith("@lid")
    by_lid = chat.received(chat.does(text="by LID", byLid=True))
    assert (by_lid["from"], by_lid["fromLid"]) == (chat.other, told["fromLid"])

    for kind, about in KINDS.items():
        content = os.urandom(30_000)
        body: dict[str, Any] = {kind: {"base64": base64.b64encode(content).decode(), **about}, "quotedId": first}
        wa_id = chat.does("send", **body)
        event = chat.received(wa_id)
        assert event["kind"] == ("audio" if kind == "voice" else kind)
        assert event["replyTo"]["waMessageId"] == first
        media = event["media"]
        assert (media["sha256"], media["state"]) == (hashlib.sha256(content).hexdigest(), "pending")
        assert chat.ready(media["mediaId"])["sha256"] == hashlib.sha256(content).hexdigest()
        assert chat.file(media["mediaId"]) == content, kind

    reaction = chat.does("react", id=first, emoji="❤️")
    edit = chat.does("edit", id=first, text="hello again")
    assert chat.received(reaction)["reaction"] == {"waMessageId": first, "emoji": "❤️"}
    assert chat.received(edit)["edit"] == {"waMessageId": first, "text": "hello again"}
    shown = chat.messages()[0]
    assert (shown["text"], shown["reactions"]) == ("hello again", [{"from": chat.other, "emoji": "❤️"}])
    assert chat.received(chat.does("delete", id=first))["deletion"] == {"waMessageId": first}
    shown = chat.messages()[0]
    assert (shown["text"], shown["deleted"]) == (None, True)
    assert chat.messages()[4]["media"]["url"], "and files are named where they can be fetched"
    place = {"latitude": 32.08, "longitude": 34.78}
    assert chat.received(chat.does(location=place))["location"] == place


def test_a_conversation_has_both_sides_in_order(system: System, chat: Chat) -> None:
    chat.received(chat.does(text="question"))
    answer = system.api.post("/api/v1/send", {"to": chat.other, "message": "answer", "sessionId": chat.session_id})

    def delivered() -> bool:
        return bool(system.api.get(f"/api/v1/messages/{answer['messageId']}")["status"] == "delivered")

    wait_for(delivered, what="the answer")
    chat.received(chat.does(text="thanks"))
    assert [(m["direction"], m["text"], m["status"]) for m in chat.messages()] == [
        ("in", "question", None), ("out", "answer", "delivered"), ("in", "thanks", None),
    ]  # fmt: skip
    (conversation,) = system.api.get(f"/api/v1/sessions/{chat.session_id}/conversations")["conversations"]
    assert (conversation["phone"], conversation["unread"]) == (chat.other, 1)
    assert conversation["lastMessage"]["text"] == "thanks"
    system.api.post(f"/api/v1/sessions/{chat.session_id}/conversations/{chat.other}/read")

    def read() -> bool:
        sent = system.simulator.get(f"/phones/{chat.other}/sent")
        return bool(sent[-1]["status"] == "read")

    wait_for(read, what="the blue ticks on the phone")


def test_a_worker_killed_in_the_middle_of_a_file_brings_it_afterwards(system: System, chat: Chat) -> None:
    content = os.urandom(500_000)
    system.fault(mediaStallMs=60_000, count=1)
    wa_id = chat.does(document={"base64": base64.b64encode(content).decode(), "fileName": "big.bin"})
    media_id = chat.received(wa_id)["media"]["mediaId"]
    tmp = system.data / "sessions" / chat.session_id / "tmp"
    wait_for(lambda: any(tmp.glob("*.inbound")), what="half of the file")
    worker = system.worker_pid(chat.session_id)
    os.kill(worker, signal.SIGKILL)
    with pytest.raises(Refused) as pending:
        system.api.get(f"/api/v1/sessions/{chat.session_id}/media/{media_id}")
    assert pending.value.code == "MEDIA_PENDING"
    system.wait_new_worker(chat.session_id, worker)
    chat.ready(media_id, timeout_s=60)
    assert chat.file(media_id) == content
    assert len(system.events(chat.session_id, "MESSAGE_RECEIVED")) == 1
