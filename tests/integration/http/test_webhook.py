"""Workers' events over HTTP: signature, numbering, lateness, and what follows from them."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from support.control_plane import WEBHOOK_SECRET, ControlPlane, now_ms, proxy_url
from support.leftovers import environment_of
from support.socks_server import SocksServer
from support.waiting import wait_until
from wa_orchestrator.store import keys
from wa_orchestrator.worker_api.signature import session_secret

PHONE, OTHER_PHONE = "972501234567", "972501234568"


def linked(phone: str = PHONE) -> dict[str, Any]:
    return {"phoneNumber": phone, "jid": f"{phone}:1@s.whatsapp.net", "fingerprint": "f", "isNewLogin": True}


async def picture(plane: ControlPlane) -> dict[str, Any]:
    """Sessions, phones and proxies as the store has them and the journal's length, to see that nothing changed."""
    call = plane.store.connection.call
    owned = [key for key in keys.ALL if key.owner in {"sessions", "proxies", "events"} and key.name != "session_lock"]
    found: dict[str, Any] = {}
    async for name in plane.store.connection.client.scan_iter("*"):
        if any(re.fullmatch(key.pattern.replace("{}", "[^:]+"), name) for key in owned):
            read = {"hash": "HGETALL", "set": "SMEMBERS", "string": "GET", "stream": "XLEN"}
            kind = await call("TYPE", name)
            found[name] = await (call("ZRANGE", name, 0, -1) if kind == "zset" else call(read[kind], name))
    assert found
    return found


async def test_an_event_is_taken_on_both_addresses(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    for path in ("/api/webhook", "/webhook"):
        answer = await plane.event(session, "PING", {"connection": "connecting"}, path=path)
        assert (answer.status, answer.json) == (200, {"accepted": True, "duplicate": False})
    assert (await plane.good("GET", f"/api/sessions/{session}"))["lastPing"]


async def test_whoever_is_not_this_sessions_worker_gets_401_and_changes_nothing(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    mine, other = await plane.provision(), await plane.provision()
    client = plane.store.connection.client
    before = await client.hgetall(f"session:{other}"), await client.xlen("events:journal")
    body = json.dumps(
        {"sessionId": other, "type": "CONNECTED", "timestamp": now_ms(), "data": linked(), "seq": 1}
    ).encode()
    stale = now_ms() - 6 * 60_000
    tries = [
        await plane.event(other, "CONNECTED", linked(), signed_for=mine),
        await plane.signed("/api/webhook", body, session_id=other, stamp=stale),
        await plane.call("POST", "/api/webhook", raw=body, key=None),
        await plane.call("POST", "/api/webhook", raw=body),  # an API key is no worker's secret
        await plane.call("POST", "/api/webhook", raw=body, headers={"X-Webhook-Secret": WEBHOOK_SECRET}, key=None),
        await plane.call("POST", "/webhook", raw=body, headers={"X-Webhook-Signature": "sha256=00"}, key=None),
        await plane.event("no:such", "PING", {}, signed_for=mine),
        await plane.event("nobody", "PING", {}, signed_for=mine),
    ]
    assert [(a.status, a.code) for a in tries] == [(401, "INVALID_SIGNATURE")] * len(tries)
    assert (await client.hgetall(f"session:{other}"), await client.xlen("events:journal")) == before
    assert await plane.store.sessions.bound_proxy(PHONE) is None


async def test_an_older_worker_may_send_its_secret(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    body = json.dumps({"sessionId": session, "type": "QR_UPDATE", "timestamp": now_ms(), "data": {"qrCode": "2@a"}})
    headers = {"X-Webhook-Secret": session_secret(WEBHOOK_SECRET, session)}
    assert (await plane.call("POST", "/webhook", raw=body.encode(), headers=headers, key=None)).status == 200
    assert await plane.status(session) == "qr_ready"


async def test_a_repeat_is_known_by_its_number_and_a_new_numbering_begins_again(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()

    async def send(seq: int, stream: str) -> bool:
        answer = await plane.event(session, "QR_CODE", {"qr": f"2@{stream}{seq}"}, seq=seq, stream=stream)
        assert answer.status == 200
        return bool(answer.json["duplicate"])

    assert [await send(n, "one") for n in (1, 2, 2, 1, 3)] == [False, False, True, True, False]
    assert (await plane.good("GET", f"/api/sessions/{session}/qr"))["qr"] == "2@one3"
    assert [await send(n, "two") for n in (1, 1)] == [False, True], "the worker's folder was lost"
    events = (await plane.good("GET", f"/api/sessions/{session}/events"))["events"]
    assert [e["type"] for e in events].count("QR_CODE") == 4


async def test_connected_twice_or_late_changes_nothing_further(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    began = now_ms()
    await plane.event(session, "QR_CODE", {"qr": "2@a"}, seq=1)
    await plane.event(session, "CONNECTED", linked(), seq=2)
    assert await plane.status(session) == "connected"
    before = await picture(plane)
    assert (await plane.event(session, "CONNECTED", linked(), seq=2)).json["duplicate"]
    assert (await plane.event(session, "QR_CODE", {"qr": "2@b"}, seq=1)).json["duplicate"]
    assert await picture(plane) == before
    # late ones with a new number are noted in the story, and move nothing
    await plane.event(session, "QR_CODE", {"qr": "2@b"}, seq=3)
    await plane.event(session, "DISCONNECTED", {"reason": "connection_lost", "code": 408}, seq=4, at=began - 60_000)
    assert await plane.status(session) == "connected"
    assert (await plane.call("GET", f"/api/sessions/{session}/qr")).code == "ALREADY_CONNECTED"
    await plane.good("POST", f"/api/sessions/{session}/stop")
    await plane.event(session, "CONNECTED", linked(), seq=5)
    assert await plane.status(session) == "stopped"


async def test_events_of_a_deleted_session_are_gone_and_change_nothing(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    await plane.good("DELETE", f"/api/sessions/{session}")
    before = await picture(plane)
    for kind, data in (("CONNECTED", linked()), ("PING", {}), ("QR_CODE", {"qr": "2@a"})):
        answer = await plane.event(session, kind, data)
        assert (answer.status, answer.code) == (410, "SESSION_DELETED"), kind
    claim = await plane.signed(f"/api/worker/sessions/{session}/outbox/claim", {"max": 0}, session_id=session)
    assert (claim.status, claim.code) == (410, "SESSION_DELETED")
    unknown = await plane.event("nobody", "CONNECTED", linked())
    assert (unknown.status, unknown.code) == (404, "SESSION_NOT_FOUND")
    assert await picture(plane) == before


async def test_the_wrong_phone_ends_the_session_and_stops_its_worker(plane: ControlPlane) -> None:
    (proxy_id,) = await plane.add_proxies(1)
    session = await plane.provision(phone=PHONE)
    assert (await plane.event(session, "CONNECTED", linked(OTHER_PHONE))).status == 200
    found = await plane.good("GET", f"/api/sessions/{session}")
    assert (found["status"], found["reason"], found["proxy"]) == ("failed", "WRONG_PHONE", None)

    async def stopped() -> bool:
        return await plane.pid(session) is None

    await wait_until(stopped)
    assert (await plane.good("GET", f"/api/v1/proxies/{proxy_id}"))["slotsUsed"] == 0
    assert await plane.store.sessions.bound_proxy(PHONE) is None
    assert await plane.store.sessions.bound_proxy(OTHER_PHONE) is None
    (plane.folder(session) / "creds.json").write_text("of the wrong phone")
    await plane.good("POST", f"/api/sessions/{session}/start")
    assert not (plane.folder(session) / "creds.json").exists(), "the next start begins with an empty folder"


async def test_a_phone_goes_back_to_its_own_proxy_with_its_folder_untouched(plane: ControlPlane) -> None:
    own, other = await plane.add_proxies(2)
    first = await plane.provision(proxy=own)
    await plane.event(first, "CONNECTED", linked())
    await plane.good("DELETE", f"/api/sessions/{first}")
    await plane.provision(proxy=own)  # now the other one is less loaded
    session = await plane.provision()
    (plane.folder(session) / "creds.json").write_text("precious")
    old = await plane.pid(session)
    assert old is not None
    assert environment_of(old)["PROXY_URL"] == proxy_url(1)
    await plane.event(session, "CONNECTED", linked())

    async def replaced() -> bool:
        return await plane.pid(session) not in {None, old}

    await wait_until(replaced)
    new = await plane.pid(session)
    assert new is not None
    assert environment_of(new)["PROXY_URL"] == proxy_url(0)
    assert (plane.folder(session) / "creds.json").read_text() == "precious"
    found = await plane.good("GET", f"/api/sessions/{session}")
    assert (found["proxy"]["id"], found["status"]) == (own, "reconnecting")
    assert other != own


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [(515, "reconnecting", "RESTART_REQUIRED"), (440, "failed", "REPLACED"), (403, "failed", "FORBIDDEN"),
     (401, "logged_out", "LOGGED_OUT")],
)  # fmt: skip
async def test_a_disconnect_is_told_and_final_ones_stop_the_worker(
    plane: ControlPlane, code: int, status: str, reason: str
) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    await plane.event(session, "CONNECTED", linked())
    said = {515: "restart_required", 440: "replaced", 403: "forbidden", 401: "logged_out"}[code]
    await plane.event(session, "DISCONNECTED", {"reason": said, "code": code, "isProxyError": False})
    found = await plane.good("GET", f"/api/sessions/{session}")
    assert (found["status"], found["reason"]) == (status, reason)
    if code == 515:
        assert found["lastDisconnect"] is None, "every pairing ends so; nothing went wrong"
        assert await plane.pid(session) is not None
        return
    assert (found["lastDisconnect"]["reason"], found["lastDisconnect"]["code"]) == (said, code)

    async def stopped() -> bool:
        return await plane.pid(session) is None

    await wait_until(stopped)


async def test_a_dead_proxy_is_probed_and_its_session_moved(plane: ControlPlane) -> None:
    dead, _ = await plane.add_proxies(2)
    session = await plane.provision(proxy=dead)
    await plane.event(session, "CONNECTED", linked())
    (plane.folder(session) / "creds.json").write_text("precious")
    await plane.event(session, "PROXY_ERROR", {"error": "refused", "kind": "refused", "host": "h", "port": 1})

    async def moved() -> bool:
        pid = await plane.pid(session)
        return pid is not None and environment_of(pid).get("PROXY_URL") == proxy_url(1)

    await wait_until(moved)
    assert (await plane.good("GET", f"/api/v1/proxies/{dead}"))["status"] == "bad"
    assert (plane.folder(session) / "creds.json").read_text() == "precious"
    found = await plane.good("GET", f"/api/sessions/{session}")
    assert (found["status"], found["reason"]) == ("reconnecting", "PROXY_FAILED")


async def test_a_proxy_that_works_is_kept_though_a_worker_blames_it(plane: ControlPlane) -> None:
    target = plane.server.settings.port
    async with SocksServer(user="u", password="p", names={"127.0.0.1": ("127.0.0.1", target)}) as socks:
        session = await plane.provision(proxy=socks.url)
        pid = await plane.pid(session)
        await plane.event(session, "DISCONNECTED", {"reason": "proxy_error", "isProxyError": True})

        async def looked() -> bool:
            return bool(socks.requests)

        await wait_until(looked)
        await plane.server.rooms.intake.close()
        found = (await plane.good("GET", "/api/v1/proxies"))["proxies"][0]
        assert (found["status"], found["slotsUsed"]) == ("active", 1)
        assert await plane.pid(session) == pid, "a young worker is left to try again by itself"


async def test_without_another_proxy_a_session_waits_and_goes_on_by_itself(plane: ControlPlane) -> None:
    (dead,) = await plane.add_proxies(1)
    session = await plane.provision()
    await plane.event(session, "CONNECTED", linked())
    await plane.event(session, "PROXY_ERROR", {"error": "refused"})

    async def waits() -> bool:
        found = await plane.good("GET", f"/api/sessions/{session}")
        return found["reason"] == "NO_PROXY_AVAILABLE" and await plane.pid(session) is None

    await wait_until(waits)
    target = plane.server.settings.port
    async with SocksServer(names={"127.0.0.1": ("127.0.0.1", target)}) as socks:
        added = await plane.good("POST", "/api/v1/proxies", {"proxy": socks.url}, status=201)

        async def goes_on() -> bool:
            pid = await plane.pid(session)
            return pid is not None and environment_of(pid).get("PROXY_URL") == socks.url

        await wait_until(goes_on)
        assert await plane.store.sessions.bound_proxy(PHONE) == added["id"] != dead


_MALFORMED: list[tuple[Any, int, str]] = [
    ({"type": "PING", "timestamp": 1}, 422, "sessionId"),
    ({"sessionId": 5, "type": "PING", "timestamp": 1}, 422, "sessionId"),
    ({"sessionId": "s", "timestamp": 1}, 422, "type"),
    ({"sessionId": "s", "type": "PING"}, 422, "timestamp"),
    ({"sessionId": "s", "type": "PING", "timestamp": "now"}, 422, "timestamp"),
    ({"sessionId": "s", "type": "PING", "timestamp": -1}, 422, "timestamp"),
    ({"sessionId": "s", "type": "DISCONNECTED", "timestamp": 10**18}, 422, "timestamp"),
    ({"sessionId": "s", "type": "PING", "timestamp": 1, "seq": 10**30}, 422, "seq"),
    ({"sessionId": "s", "type": "PING", "timestamp": 1, "seq": 1.5}, 422, "seq"),
    ({"sessionId": "s", "type": "PING", "timestamp": 1, "data": []}, 422, "data"),
    ({"sessionId": "s", "type": "PING", "timestamp": 1, "stream": 1}, 422, "stream"),
    ({"sessionId": "s", "type": "DANCE", "timestamp": 1}, 422, "type"),
    ({"sessionId": "s", "type": "QR_CODE", "timestamp": 1, "data": {"qr": "x" * 5000}}, 422, "data.qr"),
    ({"sessionId": "s", "type": "CONNECTED", "timestamp": 1, "data": {"phoneNumber": "1"}}, 422, "data.phoneNumber"),
    ([], 422, ""),
    (b"[" * 60_000, 422, ""),
    (b'{"sessionId":"s","type":"PING","timestamp":1,"data":{"a":' + b"[" * 60_000, 400, ""),
]  # fmt: skip


async def test_a_malformed_event_is_refused_with_the_field_named(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    await plane.provision(sessionId="s")
    before = await picture(plane)
    for body, status, field in _MALFORMED:
        answer = await plane.signed("/api/webhook", body, session_id="s")
        assert (answer.status, answer.field) == (status, field), (body, answer.body)
    assert await picture(plane) == before


async def test_absurd_numbers_are_taken_without_harm(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    await plane.provision(sessionId="s")
    huge = {"rssBytes": 10**30, "code": 10**30, "expiresInMs": 10**18, "qr": "2@a", "reason": "x" * 10_000, "n": 1e300}
    for kind in ("PING", "QR_CODE", "DISCONNECTED", "PROXY_ERROR", "AUTH_FAILURE", "MESSAGE_STATUS"):
        answer = await plane.event("s", kind, huge)
        assert answer.status in {200, 422}, (kind, answer.body)
    assert (await plane.good("GET", "/api/sessions"))["total"] == 1
    assert (await plane.call("GET", "/api/sessions/s/events")).status == 200


async def test_a_claim_waits_and_is_woken_by_a_command(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    path = f"/api/worker/sessions/{session}/outbox/claim"
    quick = await plane.signed(path, {"max": 0, "waitMs": 0, "connection": "open"}, session_id=session)
    assert quick.json == {"messages": [], "commands": []}
    waiting = asyncio.create_task(plane.signed(path, {"max": 0, "waitMs": 20_000}, session_id=session))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    asked = asyncio.create_task(plane.call("POST", f"/api/sessions/{session}/pairing-code", {"phone": PHONE}))
    (command,) = (await asyncio.wait_for(waiting, 15)).json["commands"]
    assert (command["name"], command["args"]) == ("pairing_code", {"phone": PHONE})
    again = await plane.signed(path, {"max": 0}, session_id=session)
    assert again.json["commands"] == [command], "delivered again until it is answered"
    result = {"commandId": command["commandId"], "ok": True, "result": {"code": "ABCD1234"}}
    await plane.event(session, "COMMAND_RESULT", result)
    assert (await asyncio.wait_for(asked, 15)).json["code"] == "ABCD1234"
    assert (await plane.signed(path, {"max": 0}, session_id=session)).json["commands"] == []


async def test_a_wrong_claim_is_refused(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session, other = await plane.provision(), await plane.provision()
    path = f"/api/worker/sessions/{session}/outbox/claim"
    for body, field in [({"waitMs": 60_001}, "waitMs"), ({"waitMs": -1}, "waitMs"), ({"max": -1}, "max"),
                        ({"max": "1"}, "max"), ({"more": 1}, "more"), ({"connection": 1}, "connection")]:  # fmt: skip
        answer = await plane.signed(path, body, session_id=session)
        assert (answer.status, answer.field) == (422, field), body
    assert (await plane.signed(path, b"{", session_id=session)).code == "INVALID_JSON"
    foreign = await plane.signed(path, {"max": 0}, session_id=other)
    assert (foreign.status, foreign.code) == (401, "INVALID_SIGNATURE")
    assert (await plane.call("POST", path, {"max": 0})).status == 401
