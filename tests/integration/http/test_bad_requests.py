"""Whatever is sent, the answer is a clear 4xx with the field named, in one shape, and never a 500."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from collections.abc import AsyncIterator
from typing import Any

from yarl import URL

from support.control_plane import API_KEY, PROXY_PASSWORD, Answer, ControlPlane

PROVISION, PROXIES = "/api/sessions/provision", "/api/v1/proxies"


def check_shape(answer: Answer) -> dict[str, Any]:
    error: dict[str, Any] = answer.json["error"]
    assert set(error) <= {"code", "message", "details", "requestId"}
    assert error["code"] == error["code"].upper()
    assert error["message"].endswith((".", "?")), error["message"]
    assert error["requestId"] == answer.headers["x-request-id"]
    assert answer.headers["content-type"].startswith("application/json")
    return error


_BAD_JSON = [b"{", b"nonsense", b'{"phone":}', b"\xff\xfe", b'{"a":1]', b'"\\ud800', b'{"a":' * 50_000, b"\0"]


async def test_bad_json_is_said(plane: ControlPlane) -> None:
    for path, raw in itertools.product((PROVISION, PROXIES, "/api/webhook"), _BAD_JSON):
        answer = await plane.call("POST", path, raw=raw, headers={"Content-Type": "application/json"})
        check_shape(answer)
        assert (answer.status, answer.code) == (400, "INVALID_JSON"), (path, raw[:20], answer.body)


_WRONG_FIELDS: list[tuple[str, Any, str]] = [
    (PROVISION, {"phone": 972501234567}, "phone"),
    (PROVISION, {"phone": ["972501234567"]}, "phone"),
    (PROVISION, {"label": {}}, "label"),
    (PROVISION, {"label": "x" * 201}, "label"),
    (PROVISION, {"metadata": {"a": 1}}, "metadata.a"),
    (PROVISION, {"metadata": "x"}, "metadata"),
    (PROVISION, {"metadata": {str(n): "" for n in range(51)}}, "metadata"),
    (PROVISION, {"allowAdditional": "yes"}, "allowAdditional"),
    (PROVISION, {"rebind": 1}, "rebind"),
    (PROVISION, {"phnoe": "972501234567"}, "phnoe"),
    (PROVISION, {"session_id": "a"}, "session_id"),
    (PROVISION, {"sessionId": "x" * 201}, "sessionId"),
    (PROVISION, {"proxy": 5}, "proxy"),
    (PROVISION, {"proxy": "socks5h://a:1", "proxyOverride": "socks5h://b:1"}, "body"),
    (PROVISION, [], "body"),
    (PROVISION, "text", "body"),
    (PROXIES, {}, "proxy"),
    (PROXIES, {"proxy": None}, "proxy"),
    (PROXIES, {"proxy": "socks5h://h:1", "more": 1}, "more"),
    (PROXIES, None, "body"),
]


async def test_wrong_types_and_unknown_fields_are_named(plane: ControlPlane) -> None:
    for path, body, field in _WRONG_FIELDS:
        raw = json.dumps(body).encode()
        answer = await plane.call("POST", path, raw=raw, headers={"Content-Type": "application/json"})
        assert answer.status == 422, answer.body
        error = check_shape(answer)
        assert error["details"]["field"] == field
        assert field in error["message"]


async def test_odd_session_ids_are_refused_and_take_no_slot(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    for session_id in ("../x", "a:b", "x" * 65, "a\n", " a", "a.b", "é", "", "a/b", "a\0b"):
        answer = await plane.call("POST", PROVISION, {"sessionId": session_id})
        assert (answer.status, answer.code, answer.field) == (400, "INVALID_SESSION_ID", "sessionId"), session_id
    assert (await plane.good("GET", PROXIES))["proxies"][0]["slotsUsed"] == 0
    assert not (plane.data / "x").exists()


_SESSION_PATHS = [
    ("GET", "/api/sessions/{}"),
    ("GET", "/api/sessions/{}/status"),
    ("GET", "/api/sessions/{}/qr"),
    ("GET", "/api/sessions/{}/events"),
    ("POST", "/api/sessions/{}/start"),
    ("POST", "/api/sessions/{}/stop"),
    ("POST", "/api/sessions/{}/restart"),
    ("POST", "/api/sessions/{}/logout"),
    ("DELETE", "/api/sessions/{}"),
]
_ODD_IN_PATH = ["a:b", "x" * 65, "a%0A", "%2e%2e", "..%2Fx", "a%00"]


async def test_odd_session_ids_in_the_path_are_refused(plane: ControlPlane) -> None:
    for (method, path), session_id in itertools.product(_SESSION_PATHS, _ODD_IN_PATH):
        url = URL(plane.url + path.format(session_id), encoded=True)
        async with plane.http.request(method, url, headers={"X-Api-Key": API_KEY}) as got:
            body = await got.json()
            # an encoded slash makes it another address, where there is nothing
            expected = (404, "NOT_FOUND") if "%2F" in session_id else (400, "INVALID_SESSION_ID")
            assert (got.status, body["error"]["code"]) == expected, (method, path, session_id)


_BAD_PROXIES = [
    (f"socks5://user:{PROXY_PASSWORD}@h.example:1080", "socks5h://"),
    (f"http://user:{PROXY_PASSWORD}@h.example:8080", "http://"),
    (f"socks5h://user:{PROXY_PASSWORD}@h.example", "port"),
    (f"socks5h://user:{PROXY_PASSWORD}@h.example:", "port"),
    (f"socks5h://user:{PROXY_PASSWORD}@h.example:99999", "port"),
    (f"socks5h://user:{PROXY_PASSWORD}@:1080", "host"),
    (f"{PROXY_PASSWORD}", "proxy"),
    ("", "proxy"),
    ("   ", "proxy"),
]


async def test_a_proxy_that_cannot_be_used_is_refused_without_repeating_its_password(plane: ControlPlane) -> None:
    fields = ((PROVISION, "proxy"), (PROVISION, "proxyOverride"), (PROXIES, "proxy"))
    for (proxy, word), (path, name) in itertools.product(_BAD_PROXIES, fields):
        answer = await plane.call("POST", path, {name: proxy})
        assert (answer.status, answer.code, answer.field) == (400, "INVALID_PROXY", name), answer.body
        assert word in answer.json["error"]["message"]
        assert PROXY_PASSWORD.encode() not in answer.body
    assert (await plane.good("GET", PROXIES))["total"] == 0


async def chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b" " * 65536


async def test_huge_bodies_are_refused_whether_declared_or_not(plane: ControlPlane) -> None:
    limit = plane.server.settings.max_body_bytes
    for path in (PROVISION, PROXIES, "/api/v1/proxies/import", "/api/webhook"):
        for raw in (io.BytesIO(b" " * (limit + 1)), chunks(limit // 65536 + 2)):
            answer = await plane.call("POST", path, raw=raw, headers={"Content-Type": "application/json"})
            check_shape(answer)
            assert (answer.status, answer.code) == (413, "TOO_LARGE"), (path, type(raw))


async def test_a_lying_length_does_not_hang_or_break_the_server(plane: ControlPlane) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", plane.server.settings.port)
    writer.write(b"POST /api/webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n{")
    assert b" 413 " in await asyncio.wait_for(reader.readline(), 5)
    writer.close()
    await writer.wait_closed()
    assert (await plane.call("GET", "/health")).status == 200


async def test_a_caller_that_hangs_up_in_the_middle_does_not_break_the_server(plane: ControlPlane) -> None:
    for path in ("/api/webhook", PROVISION):
        _, writer = await asyncio.open_connection("127.0.0.1", plane.server.settings.port)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: {API_KEY}\r\nContent-Length: 100\r\n\r\n{{"
        writer.write(head.encode())
        await writer.drain()
        writer.transport.abort()
    assert (await plane.call("GET", "/health")).json["status"] == "ok"


_NOWHERE = [
    ("GET", "/api/nothing", 404, "NOT_FOUND"),
    ("GET", "/", 307, ""),
    ("PATCH", PROVISION, 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/api/webhook", 405, "METHOD_NOT_ALLOWED"),
    ("PATCH", PROXIES, 405, "METHOD_NOT_ALLOWED"),
    ("GET", "/api/worker/sessions/a/outbox/claim", 405, "METHOD_NOT_ALLOWED"),
]


async def test_wrong_addresses_and_methods_have_the_same_shape(plane: ControlPlane) -> None:
    for method, path, status, code in _NOWHERE:
        answer = await plane.call(method, path)
        assert answer.status == status
        if code:
            assert check_shape(answer)["code"] == code


async def test_a_request_id_is_made_or_kept(plane: ControlPlane) -> None:
    made = (await plane.call("GET", "/health")).headers["x-request-id"]
    assert len(made) == 16
    kept = await plane.call("GET", "/api/sessions/nobody", headers={"X-Request-Id": "my-id.7"})
    assert kept.headers["x-request-id"] == kept.json["error"]["requestId"] == "my-id.7"
    for odd in ("x" * 65, "a b", "<script>"):
        replaced = await plane.call("GET", "/health", headers={"X-Request-Id": odd})
        assert replaced.headers["x-request-id"] != odd
