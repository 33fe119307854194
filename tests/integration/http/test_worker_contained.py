"""A worker that was taken over has one session's secret. What it can do with it ends at that session."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from support.control_plane import API_KEY, WEBHOOK_SECRET, ControlPlane, signed_headers
from support.messages import UNPACED
from wa_orchestrator.worker_api.signature import session_secret

MINE, OTHER = "taken-over", "neighbour"
PHONES = {MINE: "972501111111", OTHER: "972502222222"}


async def two_sessions(plane: ControlPlane) -> None:
    await plane.add_proxies(2)
    for session_id, phone in PHONES.items():
        await plane.provision(sessionId=session_id, phone=phone)
        await plane.good("PUT", f"/api/anti-ban/sessions/{session_id}/limits", UNPACED)
        connected = {"phoneNumber": phone, "jid": f"{phone}@s.whatsapp.net"}
        assert (await plane.event(session_id, "CONNECTED", connected)).status == 200


async def claimed_by_the_other(plane: ControlPlane) -> dict[str, Any]:
    await plane.good("POST", "/api/v1/send", {"to": "972521111111", "text": "private", "sessionId": OTHER}, status=202)
    answer = await plane.signed(f"{outbox(OTHER)}/claim", {"max": 1, "waitMs": 20_000}, session_id=OTHER)
    message: dict[str, Any] = answer.json["messages"][0]
    return message


def outbox(session_id: str) -> str:
    return f"/api/worker/sessions/{session_id}/outbox"


async def state_of(plane: ControlPlane, message_id: str) -> str:
    return str((await plane.good("GET", f"/api/v1/messages/{message_id}"))["status"])


async def test_it_cannot_speak_claim_or_answer_in_anothers_name(plane: ControlPlane) -> None:
    await two_sessions(plane)
    events_before = await plane.good("GET", f"/api/sessions/{OTHER}/events")
    now = int(time.time() * 1000)
    for path, body in (
        (f"{outbox(OTHER)}/claim", {"max": 10, "waitMs": 0}),
        (f"{outbox(OTHER)}/ack", {"messageId": "msg_1", "token": 1, "sentAt": now}),
        (f"{outbox(OTHER)}/nack", {"messageId": "msg_1", "token": 1, "error": {"code": "X"}}),
        ("/api/webhook", {"sessionId": OTHER, "type": "DISCONNECTED", "timestamp": now, "data": {"code": 401}}),
    ):
        answer = await plane.signed(path, body, session_id=MINE)
        assert (answer.status, answer.code) == (401, "INVALID_SIGNATURE"), path
    assert await plane.status(OTHER) == "connected"
    assert await plane.good("GET", f"/api/sessions/{OTHER}/events") == events_before


async def test_it_cannot_end_or_falsify_anothers_messages(plane: ControlPlane) -> None:
    await two_sessions(plane)
    message = await claimed_by_the_other(plane)
    message_id, token = message["messageId"], message["lease"]["token"]
    now = int(time.time() * 1000)
    ack = {"messageId": message_id, "token": token, "sentAt": now}
    nack = {"messageId": message_id, "token": token, "error": {"code": "NOT_ON_WHATSAPP"}, "retryable": False}
    assert (await plane.signed(f"{outbox(MINE)}/ack", ack, session_id=MINE)).code == "MESSAGE_NOT_FOUND"
    assert (await plane.signed(f"{outbox(MINE)}/nack", nack, session_id=MINE)).code == "MESSAGE_NOT_FOUND"
    for kind, data in (
        ("MESSAGE_SENT", {"messageId": message_id, "waMessageId": message["waMessageId"]}),
        ("MESSAGE_FAILED", {"messageId": message_id, "error": {"code": "WA_REJECTED"}}),
        ("MESSAGE_STATUS", {"waMessageId": message["waMessageId"], "status": "read"}),
        ("MESSAGE_STATUS", {"messageId": message_id, "status": "error"}),
    ):
        assert (await plane.event(MINE, kind, data)).status == 200
        assert await state_of(plane, message_id) == "claimed", kind
    # its own worker's word counts
    assert (await plane.signed(f"{outbox(OTHER)}/ack", ack, session_id=OTHER)).status == 200
    assert await state_of(plane, message_id) == "sent"


async def test_it_cannot_answer_a_command_for_another(plane: ControlPlane) -> None:
    await two_sessions(plane)
    command_id = await plane.store.commands.send(OTHER, "pairing_code", {"phone": PHONES[OTHER]})
    forged = {"commandId": command_id, "ok": True, "result": {"code": "FORGED00"}}
    assert (await plane.event(MINE, "COMMAND_RESULT", forged)).status == 200
    told = await plane.signed(f"{outbox(OTHER)}/claim", {"max": 0, "waitMs": 0}, session_id=OTHER)
    assert [command["commandId"] for command in told.json["commands"]] == [command_id], "it still waits for its worker"
    real = {**forged, "result": {"code": "REAL1234"}}
    assert (await plane.event(OTHER, "COMMAND_RESULT", real)).status == 200
    assert (await plane.store.commands.answer(command_id, timeout_s=5))["result"] == {"code": "REAL1234"}


async def test_it_cannot_connect_as_anothers_phone(plane: ControlPlane) -> None:
    await two_sessions(plane)
    stolen = {"phoneNumber": PHONES[OTHER], "jid": f"{PHONES[OTHER]}@s.whatsapp.net"}
    assert (await plane.event(MINE, "CONNECTED", stolen)).status == 200
    assert await plane.status(OTHER) == "connected"
    found = await plane.good("GET", f"/api/sessions/{MINE}")
    assert (found["status"], found["reason"]) == ("failed", "WRONG_PHONE")
    proxies = (await plane.good("GET", "/api/v1/proxies"))["proxies"]
    assert sum(OTHER in proxy["sessions"] for proxy in proxies) == 1


async def test_its_secret_is_no_key_and_leads_to_no_other(plane: ControlPlane) -> None:
    await two_sessions(plane)
    secret = session_secret(WEBHOOK_SECRET, MINE)
    for path in ("/api/sessions", "/api/v1/messages", "/metrics", "/api/v1/proxies", "/api/v1/backups"):
        for header in ("X-Api-Key", "Authorization", "X-Webhook-Secret"):
            value = f"Bearer {secret}" if header == "Authorization" else secret
            assert (await plane.call("GET", path, key=None, headers={header: value})).status == 401, (path, header)
    assert session_secret(secret, OTHER) != session_secret(WEBHOOK_SECRET, OTHER)
    body = b'{"sessionId":"neighbour","type":"PING","timestamp":1,"data":{}}'
    plain = {"Content-Type": "application/json", "X-Webhook-Secret": secret}
    assert (await plane.call("POST", "/api/webhook", raw=body, headers=plain, key=None)).status == 401


async def test_files_of_messages_are_fetched_only_with_a_signature_of_that_session(plane: ControlPlane) -> None:
    await two_sessions(plane)
    uploaded = (await plane.call("POST", "/api/v1/media", raw=b"a file")).json["mediaId"]
    path = f"/api/worker/sessions/{OTHER}/media/{uploaded}"
    assert (await plane.call("GET", path, key=API_KEY)).status == 401
    assert (await plane.call("GET", path, key=None, headers=signed_headers(MINE, b""))).status == 401
    assert (await plane.call("GET", path, key=None, headers=signed_headers(OTHER, b""))).body == b"a file"
    for odd in ("..%2f..%2fsecrets.json", "../../secrets.json", "med_" + "0" * 24, "%2e%2e"):
        answer = await plane.call(
            "GET", f"/api/worker/sessions/{OTHER}/media/{odd}", key=None, headers=signed_headers(OTHER, b"")
        )
        assert answer.status in {401, 404}, odd


async def test_a_worker_process_is_given_its_own_secret_and_nothing_else(plane: ControlPlane) -> None:
    await two_sessions(plane)
    pid = await plane.pid(MINE)
    environ = Path(f"/proc/{pid}/environ").read_bytes().decode()
    given = dict(entry.split("=", 1) for entry in environ.split("\0") if "=" in entry)
    assert given["WEBHOOK_SECRET"] == session_secret(WEBHOOK_SECRET, MINE)
    for secret in (WEBHOOK_SECRET, API_KEY, session_secret(WEBHOOK_SECRET, OTHER), plane.server.redis_url):
        assert secret not in given.values()
        assert not any(secret in value for name, value in given.items() if name != "WEBHOOK_SECRET")
    assert not {"REDIS_URL", "API_KEY", "DATA_DIR", "BACKUP_PASSPHRASE", "TELEGRAM_BOT_TOKEN"} & given.keys()
