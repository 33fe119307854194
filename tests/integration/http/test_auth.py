"""The key is needed everywhere, but where the document says otherwise."""

from __future__ import annotations

from typing import Any

from support.control_plane import API_KEY, ControlPlane

OPEN = {"/health", "/ready"}
FILLED = {"{mediaId}": f"in_{0:024x}"}  # a worker's upload is told by the form of its id


def operations(document: dict[str, Any]) -> list[tuple[str, str]]:
    """(method, path) of every documented operation, with something in place of path parameters."""
    return [
        (method.upper(), "/".join(FILLED.get(p, "any") if p.startswith("{") else p for p in path.split("/")))
        for path, methods in document["paths"].items()
        for method in methods
    ]


async def test_every_documented_operation_needs_the_key(plane: ControlPlane) -> None:
    document = await plane.good("GET", "/openapi.json")
    checked = 0
    for method, path in operations(document):
        if path in OPEN:
            continue
        for key in (None, "", "wrong", f"{API_KEY}x"):
            answer = await plane.call(method, path, {} if method != "GET" else None, key=key)
            # a worker's calls are told by their signature, which is checked once the body names a session
            expected = {401, 422} if path == "/api/webhook" else {401}
            assert answer.status in expected, (method, path, answer.body)
            assert answer.code in {"UNAUTHORIZED", "INVALID_SIGNATURE", "INVALID_BODY"}
        checked += 1
    assert checked >= 20


async def test_the_other_form_of_each_path_needs_the_key_too(plane: ControlPlane) -> None:
    for path in ("/api/v1/sessions", "/api/sessions", "/api/proxies", "/api/v1/proxies", "/api/events/stream"):
        assert (await plane.call("GET", path, key=None)).status == 401, path


async def test_some_pages_need_no_key(plane: ControlPlane) -> None:
    for path in ("/health", "/ready", "/sign-in"):
        assert (await plane.call("GET", path, key=None)).status == 200, path


async def test_the_document_is_for_those_who_have_a_key_or_sign_in(plane: ControlPlane) -> None:
    assert (await plane.call("GET", "/openapi.json", key=None)).status == 401
    led = await plane.call("GET", "/docs", key=None)
    assert (led.status, led.headers["location"]) == (307, "/sign-in?next=/docs")
    for path in ("/openapi.json", "/docs"):
        assert (await plane.call("GET", path)).status == 200, path
        assert (await plane.call("GET", path, key="wrong")).status in {401, 307}, path


async def test_the_key_is_taken_from_the_headers_that_clients_use(plane: ControlPlane) -> None:
    for headers in ({"X-Api-Key": API_KEY}, {"apikey": API_KEY}, {"Authorization": f"Bearer {API_KEY}"}):
        assert (await plane.call("GET", "/api/sessions", key=None, headers=headers)).status == 200, headers


async def test_other_authorizations_are_refused(plane: ControlPlane) -> None:
    for header in ("Bearer", "Bearer ", f"Basic {API_KEY}", f"bearer{API_KEY}"):
        answer = await plane.call("GET", "/api/sessions", key=None, headers={"Authorization": header})
        assert (answer.status, answer.code) == (401, "UNAUTHORIZED"), header
        assert answer.headers["www-authenticate"]


async def test_the_key_is_not_taken_from_the_address(plane: ControlPlane) -> None:
    answer = await plane.call("GET", f"/api/sessions?apiKey={API_KEY}&x-api-key={API_KEY}", key=None)
    assert answer.status == 401


async def test_health_without_a_key_names_nobody(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    await plane.provision(phone="972501234567", sessionId="shop", label="Shop")
    answer = await plane.call("GET", "/health", key=None)
    assert answer.json["sessions"] == {"total": 1, "pending": 1}
    assert answer.json["proxies"] == {"total": 1, "active": 1}
    for secret in (b"shop", b"Shop", b"9725", b"127.0.0.1"):
        assert secret not in answer.body
