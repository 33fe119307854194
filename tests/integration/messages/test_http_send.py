"""Sending over HTTP: every form, every refusal, idempotency, and what becomes of a message."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.message_plane import MessagePlane, media_headers, message_plane
from support.messages import OTHER_PHONE, PHONE, UNPACED
from support.servers import StoreServer
from support.waiting import wait_until

TO = "972521111111"


@pytest.fixture
async def plane(tmp_path: Path, valkey: StoreServer) -> AsyncIterator[MessagePlane]:
    async with message_plane(tmp_path, valkey) as found:
        yield found


async def test_every_form_of_a_send_reaches_the_worker(plane: MessagePlane) -> None:
    session = await plane.connected()
    soon = (datetime.now(UTC) + timedelta(milliseconds=200)).isoformat()
    bodies: list[dict[str, Any]] = [
        {"message": "a string", "sessionId": session},
        {"text": "a text", "sessionId": session},
        {"message": {"text": "an object"}, "phone": PHONE},
        {"message": {"location": {"latitude": 1, "longitude": 2}}, "from": f"+{PHONE}"},
        {"text": "anybody", "priority": 1, "reference": "order 5"},
        {"text": "later", "scheduleAt": soon},
        {"text": "with an end", "expiresAt": (datetime.now(UTC) + timedelta(hours=1)).isoformat()},
        {"text": "deferred", "defer": True, "sessionId": session},
    ]
    ids = []
    for number, body in enumerate(bodies):
        path = "/api/send" if number % 2 else "/api/v1/send"
        answer = await plane.call("POST", path, {"to": f"97252111{number:04}", **body})
        assert answer.status == 202, answer.body
        assert answer.json["queued"] is True
        assert answer.json["estimatedSendAt"]
        assert answer.json["sessionId"] == (session if "sessionId" in body else None)
        ids.append(answer.json["messageId"])
    got: dict[str, Any] = {}
    while len(got) < len(ids):
        for message in await plane.claim(session):
            assert await plane.ack(session, message) is False
            got[message["messageId"]] = message
    assert set(got) == set(ids)
    assert got[ids[2]]["content"] == {"kind": "text", "text": "an object"}
    assert got[ids[3]]["content"]["kind"] == "location"
    assert got[ids[0]]["to"] == "972521110000@s.whatsapp.net"
    assert (got[ids[0]]["typingMs"], got[ids[0]]["checkExists"]) == (0, True)
    story = await plane.story(ids[4])
    assert (story["status"], story["reference"], story["waitingFor"]) == ("sent", "order 5", None)
    assert [step["what"] for step in story["story"]] == ["accepted", "queued", "outbox", "claimed", "sent"]
    status = {"waMessageId": got[ids[4]]["waMessageId"], "status": "read"}
    await plane.worker_event(session, "MESSAGE_STATUS", status)
    assert (await plane.story(ids[4]))["status"] == "read"


REFUSED: list[tuple[dict[str, Any], int, str, str]] = [
    ({"text": "a"}, 422, "INVALID_BODY", "to"),
    ({"to": "nobody", "text": "a"}, 422, "INVALID_RECIPIENT", "to"),
    ({"to": TO}, 422, "INVALID_BODY", "message"),
    ({"to": TO, "text": ""}, 422, "INVALID_BODY", "message"),
    ({"to": TO, "text": "a", "color": "red"}, 422, "INVALID_BODY", "color"),
    ({"to": TO, "text": "a" * 5000}, 422, "INVALID_BODY", "message"),
    ({"to": TO, "message": {"image": {"url": "file:///x"}}}, 422, "INVALID_BODY", "message.image.url"),
    ({"to": TO, "text": "a", "priority": 9}, 422, "INVALID_BODY", "priority"),
    ({"to": TO, "text": "a", "scheduleAt": "soon"}, 422, "INVALID_BODY", "scheduleAt"),
    ({"to": TO, "text": "a", "expiresAt": "2001-01-01T00:00:00Z"}, 422, "INVALID_BODY", "expiresAt"),
    ({"to": TO, "text": "a", "sessionId": "a/b"}, 400, "INVALID_SESSION_ID", "sessionId"),
    ({"to": TO, "text": "a", "phone": "12"}, 400, "INVALID_PHONE", "phone"),
    ({"to": TO, "text": "a", "sessionId": "nobody"}, 404, "SESSION_NOT_FOUND", ""),
    ({"to": TO, "text": "a", "phone": OTHER_PHONE}, 404, "SENDER_NOT_FOUND", ""),
    ({"to": TO, "message": {"image": {"base64": "A" * 3000}}}, 413, "TOO_LARGE", ""),
]


async def test_a_refusal_says_what_is_wrong_and_where(tmp_path: Path, valkey: StoreServer) -> None:
    async with message_plane(tmp_path, valkey, MAX_MEDIA_BYTES="1024") as plane:
        for body, status, code, field in REFUSED:
            answer = await plane.call("POST", "/api/v1/send", body)
            assert (answer.status, answer.code, answer.field) == (status, code, field), answer.body
            assert answer.json["error"]["requestId"]
        assert (await plane.good("GET", "/api/v1/messages"))["messages"] == []


async def test_too_much_names_the_limit_and_another_way(plane: MessagePlane) -> None:
    limit = plane.server.settings.max_body_bytes
    large = msgspec.json.encode({"to": TO, "message": {"image": {"base64": "A" * limit}}})
    for path in ("/api/v1/send", "/api/send", "/waha/api/sendImage"):
        for raw in (io.BytesIO(large), _in_pieces(large)):
            answer = await plane.call("POST", path, raw=raw, headers={"Content-Type": "application/json"})
            assert (answer.status, answer.code) == (413, "TOO_LARGE"), answer.body
            assert answer.json["error"]["details"] == {"setting": "MAX_BODY_BYTES", "limit": limit}
            for words in (f"larger than {limit} bytes (MAX_BODY_BYTES)", "POST /api/v1/media", "URL"):
                assert words in answer.json["error"]["message"]


async def _in_pieces(body: bytes) -> AsyncIterator[bytes]:
    """Without a length: counted as it comes."""
    for start in range(0, len(body), 65536):
        yield body[start : start + 65536]


async def test_the_door_is_shut_without_a_key_and_for_other_methods(plane: MessagePlane) -> None:
    body = {"to": TO, "text": "a"}
    assert (await plane.call("POST", "/api/v1/send", body, key=None)).code == "UNAUTHORIZED"
    assert (await plane.call("POST", "/api/v1/send/bulk", [body], key="wrong")).status == 401
    assert (await plane.call("GET", "/api/v1/send")).code == "METHOD_NOT_ALLOWED"
    assert (await plane.call("POST", "/api/v1/send", raw=b"{")).code == "INVALID_JSON"
    assert (await plane.call("POST", "/api/v1/send", raw=io.BytesIO(b"x" * 2_000_000))).status == 413
    assert (await plane.call("POST", "/api/v1/send/bulk", {"to": TO})).code == "INVALID_BODY"


async def test_an_idempotency_key_makes_one_message_of_many_posts(plane: MessagePlane) -> None:
    session = await plane.connected()
    body = {"to": TO, "text": "once", "sessionId": session}
    headers = {"Idempotency-Key": "order-1"}
    answers = await asyncio.gather(*(plane.call("POST", "/api/v1/send", body, headers=headers) for _ in range(50)))
    assert {a.status for a in answers} == {202}
    assert len({a.body for a in answers}) == 1
    assert sum(a.headers.get("idempotent-replayed") == "true" for a in answers) == 49
    other = await plane.call("POST", "/api/v1/send", {**body, "text": "twice"}, headers=headers)
    assert (other.status, other.code) == (422, "IDEMPOTENCY_KEY_REUSED")
    bad = await plane.call("POST", "/api/v1/send", body, headers={"Idempotency-Key": "x" * 300})
    assert (bad.status, bad.field) == (422, "Idempotency-Key")
    assert len(await plane.claim(session)) == 1


async def test_too_many_are_told_when_to_come_again(tmp_path: Path, valkey: StoreServer) -> None:
    async with message_plane(tmp_path, valkey, RATE_LIMIT_PER_SECOND="1", RATE_LIMIT_BURST="2") as plane:
        body = {"to": TO, "text": "a"}
        answers = [await plane.call("POST", "/api/v1/send", body) for _ in range(3)]
        assert [a.status for a in answers] == [202, 202, 429]
        assert (answers[2].code, answers[2].headers["retry-after"]) == ("TOO_MANY_REQUESTS", "1")


async def test_the_day_limit_is_told_with_its_end_unless_deferred(plane: MessagePlane) -> None:
    session = await plane.connected(limits={**UNPACED, "daily": 1})
    await plane.send(sessionId=session)
    (message,) = await plane.claim(session)
    await plane.ack(session, message)
    refused = await plane.call("POST", "/api/v1/send", {"to": TO, "text": "a", "sessionId": session})
    assert (refused.status, refused.code) == (429, "DAILY_LIMIT")
    assert 0 < int(refused.headers["retry-after"]) <= 25 * 3600
    waiting = await plane.send(sessionId=session, defer=True)
    story = await plane.story(waiting["messageId"])
    assert (story["status"], story["waitingFor"]["code"]) == ("queued", "DAILY_LIMIT")
    assert story["waitingFor"]["until"] > datetime.now(UTC).isoformat()


async def test_lists_filter_and_page_and_hide_what_is_said(plane: MessagePlane) -> None:
    session, other = await plane.connected(), await plane.connected(OTHER_PHONE)
    ids = []
    for number in range(25):
        sent = await plane.send(sessionId=(session, other)[number % 2], to=f"97252111{number:04}", text="secret",
                                reference=f"r{number % 5}", scheduleAt=plane.now() + 3_600_000)  # fmt: skip
        ids.append(sent["messageId"])
    await plane.good("POST", f"/api/v1/messages/{ids[3]}/cancel")
    await plane.good("DELETE", f"/api/v1/messages/{ids[4]}")

    async def listed(query: str) -> list[str]:
        found: list[str] = []
        cursor = ""
        while True:
            page = await plane.call("GET", f"/api/v1/messages?limit=7&cursor={cursor}&{query}")
            assert b"secret" not in page.body
            found += [m["messageId"] for m in page.json["messages"]]
            cursor = page.json["nextCursor"]
            if not cursor:
                return found

    assert sorted(await listed("")) == sorted(ids)
    assert sorted(await listed("status=cancelled")) == sorted(ids[3:5])
    assert sorted(await listed(f"sessionId={other}")) == sorted(ids[1::2])
    assert sorted(await listed("reference=r2")) == sorted(ids[2::5])
    assert await listed("to=972521110007") == [ids[7]]
    assert await listed("to=%2B972521110007") == [ids[7]]
    again = await plane.call("POST", f"/api/v1/messages/{ids[3]}/cancel")
    assert again.json["status"] == "cancelled"
    assert (await plane.call("GET", "/api/v1/messages/msg_nothing")).code == "MESSAGE_NOT_FOUND"
    assert (await plane.call("GET", "/api/v1/messages?limit=0")).field == "limit"


async def test_a_failed_message_is_on_the_dead_list_and_can_be_driven_again(plane: MessagePlane) -> None:
    session = await plane.connected()
    sent = await plane.send(sessionId=session)
    (message,) = await plane.claim(session)
    assert (await plane.call("POST", f"/api/v1/messages/{sent['messageId']}/cancel")).code == "MESSAGE_UNDER_WAY"
    assert (await plane.call("POST", f"/api/v1/messages/{sent['messageId']}/redrive")).code == "MESSAGE_NOT_FAILED"
    assert (await plane.nack(session, message, "NOT_ON_WHATSAPP")).json["state"] == "failed"
    dead = await plane.good("GET", "/api/v1/messages/dead")
    assert [(m["messageId"], m["reason"]) for m in dead["messages"]] == [(sent["messageId"], "NOT_ON_WHATSAPP: no")]
    stale = await plane.nack(session, message)
    assert (stale.status, stale.code) == (409, "LEASE_LOST")
    await plane.good("POST", f"/api/v1/messages/{sent['messageId']}/redrive")
    (again,) = await plane.claim(session)
    assert again["waMessageId"] == message["waMessageId"]
    assert await plane.ack(session, again) is False
    assert await plane.ack(session, again) is True
    assert (await plane.good("GET", "/api/v1/messages/dead"))["messages"] == []
    story = (await plane.good("GET", f"/api/v1/messages/{sent['messageId']}"))["story"]
    failed = [step for step in story if step["what"] == "failed"]
    assert [step["reason"] for step in failed] == ["NOT_ON_WHATSAPP: no"], "its earlier end is still told"
    assert [step["what"] for step in story].index("failed") < [step["what"] for step in story].index("driven_again")


async def test_a_late_failure_that_may_be_tried_again_does_not_end_the_message(plane: MessagePlane) -> None:
    session = await plane.connected()
    sent = await plane.send(sessionId=session)
    (message,) = await plane.claim(session)
    late = {"messageId": sent["messageId"], "waMessageId": message["waMessageId"], "error": {"code": "WA_503"}}
    await plane.worker_event(session, "MESSAGE_FAILED", {**late, "retryable": True})
    assert (await plane.good("GET", f"/api/v1/messages/{sent['messageId']}"))["status"] == "claimed"
    await plane.worker_event(session, "MESSAGE_FAILED", {**late, "retryable": False})
    assert (await plane.good("GET", f"/api/v1/messages/{sent['messageId']}"))["status"] == "failed"


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("ack", {}, "messageId"),
    ("ack", {"messageId": "m", "token": 1, "sentAt": -1}, "sentAt"),
    ("ack", {"messageId": "m", "token": 1, "sentAt": 10**17}, "sentAt"),
    ("nack", {"messageId": "m", "token": 1}, "error"),
    ("nack", {"messageId": "m", "token": "x", "error": {"code": "A"}}, "token"),
    ("nack", {"messageId": "m", "token": 1, "error": {"code": "A"}, "retryAfterMs": -1}, "retryAfterMs"),
    ("claim", {"max": 2000}, "max"),
    ("claim", {"waitMs": 60_001}, "waitMs"),
]


async def test_a_workers_bad_word_is_refused_with_the_field(plane: MessagePlane) -> None:
    for what, body, field in MISTAKES:
        answer = await plane.outbox("worker_1", what, body)
        assert (answer.status, answer.field) == (422, field), body


async def test_limits_are_shown_set_and_taken_back(plane: MessagePlane) -> None:
    session = await plane.connected(limits=None)
    path = f"/api/anti-ban/sessions/{session}/limits"
    shown = await plane.good("GET", path)
    assert (shown["effective"]["daily"], shown["sources"]["daily"], shown["override"]) == (20, "trust:cold", None)
    await plane.good("PUT", "/api/anti-ban/limits", {"daily": 7, "perMinute": 3})
    shown = await plane.good("PUT", path, {"perMinute": None, "hours": "10:00-11:00"})
    assert (shown["effective"]["daily"], shown["sources"]["daily"]) == (7, "global")
    assert (shown["effective"]["perMinute"], shown["sources"]["perMinute"]) == (None, "session")
    assert shown["override"] == {"perMinute": None, "hours": "10:00-11:00"}

    async def lane() -> dict[str, str]:
        found: dict[str, str] = await plane.store.lanes.get(PHONE)
        return found

    async def took_effect() -> bool:
        return (await lane()).get("daily") == "7" and "perMinute" not in await lane()

    await wait_until(took_effect)
    bad = await plane.call("PUT", path, {"hours": "late"})
    assert (bad.status, bad.field) == (422, "hours")
    assert (await plane.call("PUT", path, raw=b"[]", headers={"Content-Type": "application/json"})).status == 422
    assert (await plane.good("GET", path))["override"] == {"perMinute": None, "hours": "10:00-11:00"}
    assert (await plane.good("DELETE", path))["effective"]["perMinute"] == 3
    assert (await plane.good("GET", "/api/anti-ban/limits"))["override"] == {"daily": 7, "perMinute": 3}
    assert (await plane.good("DELETE", "/api/v1/anti-ban/limits"))["override"] is None
    assert (await plane.good("GET", path))["effective"]["daily"] == 20
    assert (await plane.call("GET", "/api/anti-ban/sessions/nobody/limits")).status == 404


async def test_numbers_at_a_glance_are_right(plane: MessagePlane) -> None:
    session = await plane.connected()
    for number in range(5):
        await plane.send(sessionId=session, to=f"97252111{number:04}")
    await plane.send(scheduleAt=plane.now() + 3_600_000)
    held: list[dict[str, Any]] = []
    while len(held) < 5:
        held += await plane.claim(session)
    for message in held[:3]:
        await plane.ack(session, message)
    await plane.nack(session, held[3])
    found = (await plane.good("GET", "/api/v1/dashboard/stats"))["messages"]
    assert found["today"] == {"accepted": 6, "sent": 3, "failed": 1}
    assert (found["underWay"], found["claimed"], found["queued"], found["dead"]) == (1, 1, 1, 1)
    status = await plane.good("GET", f"/api/sessions/{session}")
    assert (status["today"]["sent"], status["today"]["underWay"]) == (5, 1)


async def test_an_uploaded_file_is_fetched_by_the_worker_and_nobody_else(plane: MessagePlane) -> None:
    session = await plane.connected()
    file = bytes(range(256)) * 2000
    upload = await plane.call("POST", "/api/v1/media", raw=file, headers={"Content-Type": "application/octet-stream"})
    assert upload.status == 201
    media_id = upload.json["mediaId"]
    await plane.send(sessionId=session, text=None, message={"image": {"mediaId": media_id}})
    (message,) = await plane.claim(session)
    assert message["content"]["media"] == {"mediaId": media_id}
    path = f"/api/worker/sessions/{session}/media/{media_id}"
    got = await plane.call("GET", path, key=None, headers=media_headers(session))
    assert (got.status, got.body) == (200, file)
    assert (await plane.call("GET", path, key=None, headers=media_headers("worker_9"))).status == 401
    assert (await plane.call("GET", path)).status == 401
    missing = await plane.call("GET", path + "0", key=None, headers=media_headers(session))
    assert missing.code == "MEDIA_NOT_FOUND"
    empty = await plane.call("POST", "/api/v1/media", raw=b"")
    assert (empty.status, empty.field) == (422, "body")
