"""The WAHA façade: its answers, its refusals, and that our own addresses are not touched by it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.control_plane import API_KEY, ControlPlane
from support.message_plane import MessagePlane, message_plane
from support.messages import PHONE
from support.servers import StoreServer
from support.waiting import wait_until
from wa_orchestrator.roles import running_gateway
from wa_orchestrator.settings import load_settings

CHAT = "972521111111@c.us"
HOOK = {"url": "https://hooks.invalid/hook?token=t0ken", "events": ["message", "session.status"],
        "hmac": {"key": "s3cret"}, "customHeaders": [{"name": "X-Mine", "value": "h1dden"}]}  # fmt: skip


@pytest.fixture
async def waha(tmp_path: Path, valkey: StoreServer) -> AsyncIterator[MessagePlane]:
    async with message_plane(tmp_path, valkey) as found:
        yield found


async def made(plane: ControlPlane, name: str = "default", **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = await plane.good("POST", "/waha/api/sessions", {"name": name, **body}, status=201)
    return found


# sessions -------------------------------------------------------------------------------------------------------
async def test_a_session_is_made_looked_at_stopped_started_and_removed(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await made(plane, config={"metadata": {"customer": "7"}, "debug": False, "noweb": {"store": {}}})
    assert (session["name"], session["status"], session["me"]) == ("default", "STARTING", None)
    assert session["config"]["metadata"] == {"customer": "7"}
    assert session["config"]["proxy"]["server"].startswith("socks5h://127.0.0.1:")

    await plane.event("default", "QR_CODE", {"qr": "2@abc"}, seq=1, stream="s")
    assert (await plane.good("GET", "/waha/api/sessions/default"))["status"] == "SCAN_QR_CODE"
    await plane.event("default", "CONNECTED", {"phoneNumber": PHONE, "jid": f"{PHONE}:1@s.whatsapp.net", "lid": "9@lid",
                                               "name": "Shop"}, seq=2, stream="s")  # fmt: skip
    assert [s["status"] for s in await plane.good("GET", "/waha/api/sessions")] == ["WORKING"]
    me = {"id": f"{PHONE}@c.us", "lid": "9@lid", "jid": f"{PHONE}:1@s.whatsapp.net", "pushName": "Shop"}
    assert await plane.good("GET", "/waha/api/sessions/default/me") == me

    assert (await plane.good("POST", "/waha/api/sessions/default/stop", status=201))["status"] == "STOPPED"
    assert await plane.good("GET", "/waha/api/sessions") == []
    assert len(await plane.good("GET", "/waha/api/sessions?all=true")) == 1
    assert (await plane.good("POST", "/waha/api/sessions/default/start", status=201))["status"] == "STARTING"
    assert (await plane.good("POST", "/waha/api/sessions/default/restart", status=201))["status"] == "STARTING"
    assert (await plane.good("DELETE", "/waha/api/sessions/default"))["success"] is True
    assert (await plane.call("GET", "/waha/api/sessions/default")).code == "SESSION_NOT_FOUND"


async def test_our_own_addresses_answer_in_our_own_words(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    await made(plane)
    assert (await plane.good("GET", "/api/sessions/default"))["status"] == "pending"
    assert (await plane.good("GET", "/api/sessions"))["sessions"][0]["sessionId"] == "default"
    assert (await plane.good("POST", "/api/sessions/default/stop"))["status"] == "stopped"
    assert (await plane.good("DELETE", "/api/sessions/default"))["deleted"] is True


async def test_what_is_not_ours_is_served_under_api_too(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    assert (await plane.good("POST", "/api/sessions", {"name": "second"}, status=201))["status"] == "STARTING"
    assert await plane.good("GET", "/api/sessions/second/me") is None
    assert (await plane.call("GET", "/api/second/auth/qr")).code == "QR_NOT_READY"
    assert (await plane.good("GET", "/api/version"))["engine"] == "NOWEB"
    assert (await plane.good("POST", "/api/sendText", {"session": "second", "chatId": CHAT, "text": "a"}, status=201))[
        "id"
    ]


async def test_a_slash_at_the_end_of_an_address_does_no_harm(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    assert (await plane.good("POST", "/waha/api/sessions/", {"name": "default"}, status=201))["name"] == "default"
    assert len(await plane.good("GET", "/waha/api/sessions/?all=true")) == 1


async def test_linking_with_a_code_and_logging_out(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    await made(tiny_plane)
    body = {"phoneNumber": PHONE, "method": None}
    answer = await tiny_plane.good("POST", "/waha/api/default/auth/request-code", body, status=201)
    assert answer == {"code": "TINY1234"}
    told = await tiny_plane.good("POST", "/waha/api/sessions/default/logout", status=201)  # nothing is linked yet
    assert told["name"] == "default"


async def test_no_key_no_answer(plane: ControlPlane) -> None:
    calls = [("GET", "/waha/api/sessions"), ("POST", "/waha/api/sendText"), ("GET", "/api/a/auth/qr"),
             ("GET", "/ping"), ("GET", "/waha/ping"), ("GET", "/waha/health")]  # fmt: skip
    for method, path in calls:
        assert (await plane.call(method, path, {} if method == "POST" else None, key=None)).status == 401, path
    for path in ("/ping", "/waha/ping"):
        assert (await plane.call("GET", path)).json == {"message": "pong"}
    assert (await plane.call("GET", "/waha/health")).json["status"] == "ok"


async def test_the_code_comes_as_picture_as_base64_and_as_text(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    await made(plane)
    await plane.event("default", "QR_CODE", {"qr": "2@abc"}, seq=1, stream="s")
    path = "/waha/api/default/auth/qr"
    picture = await plane.call("GET", path)
    assert picture.headers["content-type"] == "image/png"
    assert picture.body.startswith(b"\x89PNG")
    told = await plane.call("GET", path, headers={"Accept": "application/json"})
    assert told.json["mimetype"] == "image/png"
    assert base64.b64decode(told.json["data"]) == picture.body
    assert (await plane.good("GET", f"{path}?format=raw")) == {"value": "2@abc"}


async def test_a_session_may_be_made_without_being_started(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    assert (await made(plane, start=False))["status"] == "STOPPED"
    assert (await plane.call("GET", "/waha/api/default/auth/qr")).code == "SESSION_NOT_RUNNING"


async def test_other_proxies_are_refused_and_nothing_is_left(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    for server, code in (
        ("proxy.example:1080", "INVALID_PROXY"),
        ("http://proxy.example:3128", "INVALID_PROXY"),
        ("socks5://proxy.example:1080", "INVALID_PROXY"),
        ("px_unknown", "PROXY_NOT_FOUND"),
    ):
        body = {"name": "default", "config": {"proxy": {"server": server}}}
        assert (await plane.call("POST", "/waha/api/sessions", body)).code == code, server
    assert await plane.good("GET", "/waha/api/sessions?all=true") == []


async def test_a_proxy_is_taken_and_its_password_never_shown(plane: ControlPlane) -> None:
    proxy = {"server": "socks5h://127.0.0.1:9", "username": "us:er", "password": "p@ss"}
    session = await made(plane, config={"proxy": proxy})
    assert session["config"]["proxy"] == {"server": "socks5h://127.0.0.1:9"}
    same = {"config": {"proxy": session["config"]["proxy"]}}
    assert (await plane.call("PUT", "/waha/api/sessions/default", same)).status == 200
    other = {"config": {"proxy": {"server": "socks5h://127.0.0.1:10"}}}
    assert (await plane.call("PUT", "/waha/api/sessions/default", other)).code == "CONFLICT"


# webhooks -------------------------------------------------------------------------------------------------------
async def test_webhooks_are_kept_hidden_changed_and_taken_away(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await made(plane, config={"webhooks": [HOOK]})
    (shown,) = session["config"]["webhooks"]
    assert shown["events"] == ["message", "session.status"]
    for secret in ("s3cret", "h1dden", "t0ken"):
        assert secret not in str(session)
    (kept,) = await plane.store.webhooks.all()
    assert (kept.url, kept.secret, kept.headers) == (HOOK["url"], "s3cret", {"X-Mine": "h1dden"})
    assert (kept.format, kept.sessions, kept.by) == ("waha", ("default",), "api")

    # who sends back what they were shown changes nothing, and the place in the journal stays
    config = {**session["config"], "metadata": {"customer": "8"}}
    changed = await plane.good("PUT", "/waha/api/sessions/default", {"config": config})
    assert changed["config"]["metadata"] == {"customer": "8"}
    (again,) = await plane.store.webhooks.all()
    assert (again.webhook_id, again.url, again.secret) == (kept.webhook_id, kept.url, kept.secret)
    assert again.headers == kept.headers

    config = {"webhooks": [{"url": "https://hooks.invalid/other", "events": ["*"]}]}
    changed = await plane.good("PUT", "/waha/api/sessions/default", {"config": config})
    assert [hook["url"] for hook in changed["config"]["webhooks"]] == ["https://hooks.invalid/other"]
    # `message` and `message.any` are two requests each: two subscriptions
    assert len(await plane.store.webhooks.all()) == 2
    await plane.good("PUT", "/waha/api/sessions/default", {"config": {"webhooks": []}})
    assert await plane.store.webhooks.all() == []


async def test_a_private_address_is_refused_before_anything_is_made(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    for url in ("http://127.0.0.1:9/hook", "ftp://hooks.invalid/", "http://"):
        body = {"name": "default", "config": {"webhooks": [{"url": url, "events": ["message"]}]}}
        assert (await plane.call("POST", "/waha/api/sessions", body)).status == 400, url
    assert await plane.good("GET", "/waha/api/sessions?all=true") == []


async def test_a_new_session_of_the_name_does_not_inherit_webhooks(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    await made(plane, config={"webhooks": [HOOK]})
    await plane.good("DELETE", "/api/sessions/default")
    assert len(await plane.store.webhooks.all()) == 1  # it is still told how the session ended
    await plane.provision(sessionId="default")
    assert await plane.store.webhooks.all() == []


# messages -------------------------------------------------------------------------------------------------------
SENDS: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("POST", "sendText", {"chatId": CHAT, "text": "hi", "linkPreview": False}, {"kind": "text", "text": "hi"}),
    ("POST", "sendImage", {"chatId": CHAT, "file": {"mimetype": "image/png", "data": "aGVsbG8="}, "caption": "look"},
     {"kind": "image", "caption": "look", "media": {"base64": "aGVsbG8=", "mimetype": "image/png"}}),
    ("POST", "sendFile", {"chatId": CHAT, "file": {"url": "https://a.example/b.pdf", "filename": "b.pdf"}},
     {"kind": "document", "media": {"url": "https://a.example/b.pdf", "fileName": "b.pdf"}}),
    ("POST", "sendVoice", {"chatId": CHAT, "file": {"data": "aGVsbG8="}, "convert": True},
     {"kind": "audio", "voice": True, "media": {"base64": "aGVsbG8="}}),
    ("POST", "sendVideo", {"chatId": CHAT, "file": {"data": "aGVsbG8="}, "asNote": False, "convert": False},
     {"kind": "video", "media": {"base64": "aGVsbG8="}}),
    ("POST", "sendLocation", {"chatId": CHAT, "latitude": 1.5, "longitude": 2, "title": "Here"},
     {"kind": "location", "latitude": 1.5, "longitude": 2, "name": "Here"}),
    ("POST", "sendContactVcard", {"chatId": CHAT, "contacts": [{"fullName": "Noa", "phoneNumber": "972500000078"}]},
     {"kind": "contact", "contacts": [{"name": "Noa", "phone": "972500000078"}]}),
    ("POST", "sendPoll", {"chatId": CHAT, "poll": {"name": "When?", "options": ["a", "b"], "multipleAnswers": False}},
     {"kind": "poll", "question": "When?", "options": ["a", "b"], "selectable": 1}),
    ("PUT", "reaction", {"messageId": f"false_{CHAT}_AA01", "reaction": "👍"},
     {"kind": "reaction", "emoji": "👍", "target": {"waMessageId": "AA01", "fromMe": False}}),
]  # fmt: skip


async def test_every_kind_of_message_reaches_the_worker(waha: MessagePlane) -> None:
    session = await waha.connected()
    wanted: dict[str, dict[str, Any]] = {}
    for method, name, body, content in SENDS:
        answer = await waha.call(method, f"/waha/api/{name}", {"session": session, **body})
        assert answer.status == (200 if method == "PUT" else 201), (name, answer.body)
        told = answer.json
        assert told["id"].startswith(f"true_{CHAT}_3EB0"), name
        assert (told["fromMe"], told["ackName"], told["to"], told["from"]) == (True, "PENDING", CHAT, f"{PHONE}@c.us")
        wanted[told["_data"]["messageId"]] = content
    got: dict[str, Any] = {}
    async with asyncio.timeout(20):
        while len(got) < len(wanted):
            for message in await waha.claim(session):
                await waha.ack(session, message)
                got[message["messageId"]] = message["content"]
    assert got == wanted


async def test_a_reply_and_a_reaction_may_name_our_message_by_its_bare_id(waha: MessagePlane) -> None:
    session = await waha.connected()
    first = await waha.good("POST", "/waha/api/sendText", {"session": session, "chatId": CHAT, "text": "a"}, status=201)
    wa_id = first["key"]["id"]
    body = {"session": session, "chatId": CHAT, "text": "b", "reply_to": wa_id}
    reply = await waha.good("POST", "/waha/api/sendText", body, status=201)
    story = await waha.story(reply["_data"]["messageId"])
    assert story["content"]["quote"] == {"waMessageId": wa_id, "fromMe": True}
    react = {"session": session, "messageId": first["_data"]["messageId"], "reaction": ""}
    told = await waha.good("PUT", "/waha/api/reaction", react)
    assert (await waha.story(told["_data"]["messageId"]))["to"] == "972521111111@s.whatsapp.net"
    answer = await waha.call("PUT", "/waha/api/reaction", {"session": session, "messageId": "UNKNOWN", "reaction": "x"})
    assert (answer.status, answer.field) == (422, "messageId")


async def test_a_key_sends_once(waha: MessagePlane) -> None:
    session = await waha.connected()
    body = {"session": session, "chatId": CHAT, "text": "once"}
    ids = {
        (await waha.call("POST", "/waha/api/sendText", body, headers={"Idempotency-Key": "k"})).json["id"]
        for _ in range(2)
    }
    assert len(ids) == 1


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"session": "nobody", "chatId": CHAT, "text": "a"}, 404, "SESSION_NOT_FOUND"),
    ({"chatId": CHAT, "text": "a"}, 404, "SESSION_NOT_FOUND"),
    ({"session": "../x", "chatId": CHAT, "text": "a"}, 400, "INVALID_SESSION_ID"),
    ({"session": "worker_1", "chatId": "123@newsletter", "text": "a"}, 422, "INVALID_RECIPIENT"),
    ({"session": "worker_1", "chatId": CHAT, "text": ""}, 422, "INVALID_BODY"),
    ({"session": "worker_1", "chatId": CHAT, "text": 5}, 422, "INVALID_BODY"),
    ({"session": "worker_1", "text": "a"}, 422, "INVALID_BODY"),
]


async def test_what_cannot_be_sent_is_refused(waha: MessagePlane) -> None:
    assert await waha.connected() == "worker_1"
    for body, status, code in REFUSED:
        answer = await waha.call("POST", "/waha/api/sendText", body)
        assert (answer.status, answer.code) == (status, code), (body, answer.body)


async def test_a_gateway_alone_takes_them_too(waha: MessagePlane, valkey: StoreServer, tmp_path: Path) -> None:
    session = await waha.connected()
    environ = {"REDIS_URL": valkey.url, "API_KEY": API_KEY, "ORCH_PORT": "0", "DATA_DIR": str(tmp_path / "none")}
    async with running_gateway(load_settings(environ)) as gateway:
        body = {"session": session, "chatId": CHAT, "text": "through the gateway"}
        headers = {"X-Api-Key": API_KEY}
        for base in (f"{gateway.url}/waha", gateway.url):
            async with waha.http.post(f"{base}/api/sendText", json=body, headers=headers) as answer:
                assert answer.status == 201
                assert (await answer.json())["from"] == f"{PHONE}@c.us"
        async with waha.http.get(f"{gateway.url}/waha/api/sessions", headers=headers) as answer:
            assert answer.status == 404


async def test_a_key_for_one_session_does_nothing_for_another(waha: MessagePlane) -> None:
    mine = await waha.connected()
    other = await waha.provision(sessionId="other")
    wanted = {"name": "mine", "rights": ["send"], "sessions": [mine]}
    key = str((await waha.good("POST", "/api/v1/keys", wanted, status=201))["key"])
    calls = [(method, name, body) for method, name, body, _ in SENDS]
    calls += [("POST", name, {"chatId": CHAT}) for name in ("startTyping", "stopTyping", "sendSeen")]
    for method, name, body in calls:
        for session, allowed in ((mine, True), (other, False), ("default", False)):
            answer = await waha.call(method, f"/waha/api/{name}", {"session": session, **body}, key=key)
            assert (answer.status < 300) is allowed, (name, session, answer.body)
            assert allowed or answer.code == "FORBIDDEN"
        unnamed = await waha.call(method, f"/api/{name}", body, key=key)  # WAHA's default session is not theirs either
        assert unnamed.code == "FORBIDDEN", name
    for path in ("/waha/api/sessions", "/waha/api/other/auth/qr", f"/waha/api/sessions/{mine}"):
        assert (await waha.call("GET", path, key=key)).code == "FORBIDDEN", path
    assert (await waha.call("GET", "/waha/api/contacts/check-exists?phone=972521111111", key=key)).code == "FORBIDDEN"
    reads = {"name": "reads", "rights": ["read"], "sessions": [mine]}
    key = str((await waha.good("POST", "/api/v1/keys", reads, status=201))["key"])
    assert [s["name"] for s in (await waha.call("GET", "/waha/api/sessions?all=true", key=key)).json] == [mine]
    body = {"session": mine, "chatId": CHAT, "text": "no"}
    assert (await waha.call("POST", "/waha/api/sendText", body, key=key)).code == "FORBIDDEN"


# the worker's answers ---------------------------------------------------------------------------------------------
async def test_typing_is_accepted(waha: MessagePlane) -> None:
    session = await waha.connected()
    for name in ("startTyping", "stopTyping"):
        found = await waha.good("POST", f"/waha/api/{name}", {"session": session, "chatId": CHAT}, status=201)
        assert found["success"] is True


async def test_a_whole_chat_or_named_messages_are_marked_as_read(waha: MessagePlane) -> None:
    session = await waha.connected()
    nothing = await waha.good("POST", "/waha/api/sendSeen", {"session": session, "chatId": CHAT}, status=201)
    assert nothing["success"] is False
    message = {"waMessageId": "AA01", "from": "972521111111", "chat": "972521111111@s.whatsapp.net", "isGroup": False,
               "kind": "text", "text": "hello", "timestamp": waha.now(), "offline": False}  # fmt: skip
    assert (await waha.worker_event(session, "MESSAGE_RECEIVED", message)).status == 200
    seen = await waha.good("POST", "/waha/api/sendSeen", {"session": session, "chatId": CHAT}, status=201)
    assert seen["success"] is True
    (command,) = await waha.store.commands.waiting(session)
    assert (command["name"], command["args"]["waMessageIds"]) == ("mark_read", ["AA01"])
    await waha.worker_event(session, "COMMAND_RESULT", {"commandId": command["commandId"], "ok": True, "result": {}})

    body = {"session": session, "chatId": CHAT, "messageIds": [f"false_{CHAT}_AA02"]}
    asked = asyncio.create_task(waha.call("POST", "/waha/api/sendSeen", body))
    command = await _command(waha, session)
    assert command["args"] == {"chat": "972521111111@s.whatsapp.net", "waMessageIds": ["AA02"]}
    await waha.worker_event(session, "COMMAND_RESULT", {"commandId": command["commandId"], "ok": True, "result": {}})
    assert (await asked).status == 201


async def _command(waha: MessagePlane, session: str) -> dict[str, Any]:
    """The one that waits for the worker."""

    async def told() -> bool:
        return bool(await waha.store.commands.waiting(session))

    await wait_until(told, timeout_s=30)
    (found,) = await waha.store.commands.waiting(session)
    return dict(found)


async def test_a_number_is_asked_of_the_worker(waha: MessagePlane) -> None:
    session = await waha.connected()
    asked = asyncio.create_task(
        waha.call("GET", f"/waha/api/contacts/check-exists?phone=972521111111&session={session}")
    )
    found = await _command(waha, session)
    assert (found["name"], found["args"]) == ("check_numbers", {"phones": ["972521111111"]})
    numbers = [{"phone": "972521111111", "exists": True, "jid": "972521111111@s.whatsapp.net"}]
    result = {"commandId": found["commandId"], "ok": True, "result": {"numbers": numbers}}
    await waha.worker_event(session, "COMMAND_RESULT", result)
    assert (await asked).json == {"numberExists": True, "chatId": CHAT, "pn": CHAT}


async def test_a_session_that_is_away_cannot_be_asked(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    await made(plane)
    answer = await plane.call("GET", "/waha/api/contacts/check-exists?phone=972521111111")
    assert (answer.status, answer.code) == (409, "CONFLICT")
    assert (await plane.call("GET", "/waha/api/contacts/check-exists?phone=12&session=default")).code == "INVALID_PHONE"
