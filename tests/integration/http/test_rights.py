"""Every address of the server against every kind of key: the table of rights is complete and holds."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI
from starlette.routing import Mount, WebSocketRoute

from support.control_plane import ControlPlane
from wa_orchestrator.http.app import build_app
from wa_orchestrator.http.rights import TABLE, Reach, check_right, needs_of, table_key
from wa_orchestrator.http.send_routes import _BULK, _SEND
from wa_orchestrator.model.caller import Caller, Right, with_included

MINE, OTHER = "mine", "other"
# nobody needs a key for these: whether the server lives, the door, assets, a link for one scan
OPEN = re.compile(r"^/(health|ready|sign-in|sign-out|assets/.*|scan/\{token\}.*|docs-assets.*)$")
# these are told by a worker's signature
WORKERS = ("/api/webhook", "/webhook", "/api/worker/sessions/mine/outbox/claim", "/api/worker/sessions/mine/outbox/ack",
           "/api/worker/sessions/mine/outbox/nack", "/api/worker/sessions/mine/media/any",
           f"/api/worker/sessions/mine/inbound/in_{0:024x}")  # fmt: skip
KEYS: dict[str, dict[str, Any]] = {
    "read": {"rights": ["read"]},
    "send": {"rights": ["send"]},
    "manage": {"rights": ["manage"]},
    "admin": {"rights": ["admin"]},
    "send-mine": {"rights": ["send"], "sessions": [MINE]},
    "manage-mine": {"rights": ["manage", "send"], "sessions": [MINE]},
}


def routes(app: Any) -> Iterator[tuple[str, str]]:
    """(method, path) of everything the framework serves, sockets as WS."""
    while not isinstance(app, FastAPI):
        app = app._inner
    waiting: list[Any] = list(app.routes)
    while waiting:
        route = waiting.pop()
        if hasattr(route, "effective_candidates"):
            waiting += route.effective_candidates()
        elif getattr(route, "methods", None):
            yield from ((method, route.path) for method in route.methods - {"HEAD", "OPTIONS"})
        else:
            inner = getattr(route, "starlette_route", route)
            assert isinstance(inner, (Mount, WebSocketRoute)), route
            if isinstance(inner, WebSocketRoute):
                yield "WS", inner.path


def all_routes(plane: ControlPlane) -> list[tuple[str, str]]:
    return sorted({*routes(build_app(plane.server.rooms)), *(("POST", path) for path in _SEND | _BULK)})


def is_page(path: str) -> bool:
    """A page or a piece of one: only for those who signed in. All others are under these addresses."""
    return not path.startswith(("/api/", "/upload/", "/docs", "/openapi.json", "/metrics", "/ping", "/waha/"))


def real(method: str, path: str, session: str) -> str:
    """With something in place of parameters; where no path names the session, the query does."""
    needs = needs_of(method, path)
    filled = re.sub(r"\{[^}]+\}", "any", path.replace("{session_id}", session).replace("{session}", session))
    named = session in filled.split("/") or needs is None or needs.reach is not Reach.SESSION
    return filled if named else f"{filled}?session={session}"


async def status_of(plane: ControlPlane, method: str, path: str, key: str | None) -> tuple[int, str]:
    """Status and error code; the answer's body is read only where it ends."""
    headers = {"X-Api-Key": key} if key else {}
    sent: dict[str, Any] = {"headers": headers, "allow_redirects": False, "timeout": aiohttp.ClientTimeout(30)}
    if method in {"POST", "PUT", "PATCH"}:
        sent["json"] = {}
    async with plane.http.request(method, plane.url + path, **sent) as got:
        if got.content_type != "application/json":
            return got.status, ""
        body = await got.json()
        error = body.get("error") if isinstance(body, dict) else None
        return got.status, error.get("code", "") if isinstance(error, dict) else ""


async def socket_answer(plane: ControlPlane, path: str, key: str, session: str = "") -> bool:
    """Whether the key may listen."""
    query = f"?sessionId={session}" if session else ""
    async with plane.http.ws_connect(plane.url + path + query, headers={"X-Api-Key": key}) as socket:
        return (await socket.receive(timeout=10)).type is aiohttp.WSMsgType.TEXT


async def made_keys(plane: ControlPlane) -> dict[str, str]:
    return {
        name: str((await plane.good("POST", "/api/v1/keys", {"name": name, **wanted}, status=201))["key"])
        for name, wanted in KEYS.items()
    }


def test_every_line_of_the_table_is_for_somebody() -> None:
    for name, needs in TABLE.items():
        assert needs.rights, name
        method, _, path = name.partition(" ")
        assert needs_of(method, f"/api/v1{path}") is needs


async def test_every_route_has_its_line_and_every_line_its_route(plane: ControlPlane) -> None:
    found = all_routes(plane)
    missing = [
        (m, p) for m, p in found if table_key(m, p) not in TABLE and not OPEN.fullmatch(p) and p.startswith("/api/")
    ]
    assert not missing, "put these into http/rights.py"
    assert not set(TABLE) - {table_key(m, p) for m, p in found}, "there is no such route any more"
    assert len(found) > 120


async def test_all_routes_times_all_rights(plane: ControlPlane) -> None:
    keys = await made_keys(plane)
    walked = 0
    seen: set[str] = set()

    async def one(method: str, path: str) -> None:
        nonlocal walked
        needs = needs_of(method, path)
        if method == "WS" or OPEN.fullmatch(path):
            return
        if is_page(path):
            for name in ("read", "admin"):
                status, _ = await status_of(plane, method, real(method, path, MINE), keys[name])
                assert status in {401, 307, 303}, (method, path, status)
            return
        assert needs is not None
        for key in (None, "wrong"):
            status, code = await status_of(plane, method, real(method, path, MINE), key)
            assert status == 401 or (path == "/docs" and status == 307), (method, path, status, code)
        # the other form of an address is the same route: one key that may and one that may not are enough there
        first = table_key(method, path) not in seen
        seen.add(table_key(method, path))
        for name, wanted in KEYS.items() if first else list(KEYS.items())[-2:]:
            limited = "sessions" in wanted
            rights = with_included(Right(word) for word in wanted["rights"])
            allowed = not rights.isdisjoint(needs.rights) and not (limited and needs.reach is Reach.WHOLE)
            status, code = await status_of(plane, method, real(method, path, MINE), keys[name])
            assert (status == 403 and code == "FORBIDDEN") is not allowed, (name, method, path, status, code)
            assert status not in {401, 500}, (name, method, path, status, code)
            if limited and allowed and needs.reach is Reach.SESSION:
                for elsewhere in (real(method, path, OTHER), path):  # a key's own session is not guessed
                    status, code = await status_of(plane, method, elsewhere, keys[name])
                    assert (status, code) == (403, "FORBIDDEN"), (name, method, elsewhere, status)
            walked += 1

    found = all_routes(plane)
    for start in range(0, len(found), 16):
        await asyncio.gather(*(one(method, path) for method, path in found[start : start + 16]))
    assert walked > 80 * len(KEYS)
    assert seen == {name for name in TABLE if not name.startswith("WS ")}


async def test_the_socket_is_for_those_who_may_read(plane: ControlPlane) -> None:
    keys = await made_keys(plane)
    for method, path in all_routes(plane):
        if method != "WS":
            continue
        for name, wanted in KEYS.items():
            may = Right.READ in with_included(Right(word) for word in wanted["rights"])
            assert await socket_answer(plane, path, keys[name]) is may, (name, path)
        assert await socket_answer(plane, path, keys["manage-mine"], MINE)
        assert not await socket_answer(plane, path, keys["manage-mine"], OTHER)
        assert not await socket_answer(plane, path, "wrong")


async def test_no_key_speaks_for_a_worker(plane: ControlPlane) -> None:
    keys = await made_keys(plane)
    for path in WORKERS:
        method = "GET" if "/media/" in path else "PUT" if "/inbound/" in path else "POST"
        for key in (*keys.values(), None):
            status, code = await status_of(plane, method, path, key)
            assert status in {401, 422}, (path, status, code)


# what a limited key sees -----------------------------------------------------------------------------------------
async def test_lists_show_a_limited_key_its_own_sessions_only(plane: ControlPlane) -> None:
    keys = await made_keys(plane)
    await plane.add_proxies(2)
    for session in (MINE, OTHER):
        await plane.provision(sessionId=session)
    ids: dict[str, str] = {}
    for session in (MINE, OTHER):
        body = {"to": "972521111111", "text": "x", "sessionId": session}
        ids[session] = (await plane.good("POST", "/api/v1/send", body, status=202))["messageId"]

    async def get(path: str, name: str) -> Any:
        answer = await plane.call("GET", path, key=keys[name])
        assert answer.status == 200, answer.body
        return answer.json

    for path, field in (("/api/sessions", "sessions"), ("/api/v1/dashboard/sessions", "sessions"),
                        ("/api/v1/messages", "messages")):  # fmt: skip
        assert {row["sessionId"] for row in (await get(path, "manage-mine"))[field]} == {MINE}, path
        assert {row["sessionId"] for row in (await get(path, "read"))[field]} == {MINE, OTHER}, path
    assert (await get("/api/sessions", "manage-mine"))["total"] == 1
    for name, session, status in (("manage-mine", MINE, 200), ("manage-mine", OTHER, 404), ("read", OTHER, 200)):
        answer = await plane.call("GET", f"/api/v1/messages/{ids[session]}", key=keys[name])
        assert answer.status == status, (name, session)
    for action in ("cancel", "redrive"):
        answer = await plane.call("POST", f"/api/v1/messages/{ids[OTHER]}/{action}", key=keys["manage-mine"])
        assert (answer.status, answer.code) == (404, "MESSAGE_NOT_FOUND")


async def test_a_key_that_may_send_for_one_session_does_exactly_that(plane: ControlPlane) -> None:
    keys = await made_keys(plane)
    await plane.add_proxies(2)
    for session in (MINE, OTHER):
        await plane.provision(sessionId=session)
    body = {"to": "972521111111", "text": "hello"}
    key = keys["send-mine"]

    by_default = await plane.call("POST", "/api/v1/send", body, key=key)
    assert (by_default.status, by_default.json["sessionId"]) == (202, MINE)
    named = await plane.call("POST", "/api/send", {**body, "sessionId": MINE}, key=key)
    assert named.status == 202
    other = await plane.call("POST", "/api/v1/send", {**body, "sessionId": OTHER}, key=key)
    assert (other.status, other.code) == (403, "FORBIDDEN")
    for sender in ("phone", "from"):
        elsewhere = await plane.call("POST", "/api/v1/send", {**body, sender: "972500000009"}, key=key)
        assert (elsewhere.status, elsewhere.field) == (422, "sessionId")
    bulk = await plane.call("POST", "/api/v1/send/bulk", [{**body, "sessionId": OTHER}, body], key=key)
    assert [result["queued"] for result in bulk.json["results"]] == [False, True]
    assert bulk.json["results"][0]["error"]["code"] == "FORBIDDEN"

    # who sent it is told by the key's name, and the sender sees that message, but nobody else's
    mine = await plane.call("GET", f"/api/v1/messages/{named.json['messageId']}", key=key)
    assert mine.status == 200
    record = await plane.store.messages.get(named.json["messageId"])
    assert record["by"] == "send-mine"
    foreign = await plane.good("POST", "/api/v1/send", {**body, "sessionId": MINE}, status=202)
    assert (await plane.call("GET", f"/api/v1/messages/{foreign['messageId']}", key=key)).status == 404
    assert (await plane.call("GET", "/api/v1/messages", key=key)).status == 403
    assert (await plane.call("DELETE", f"/api/v1/messages/{foreign['messageId']}", key=key)).status == 404
    assert (await plane.call("DELETE", f"/api/v1/messages/{named.json['messageId']}", key=key)).status == 200


async def test_a_limited_key_hears_of_its_sessions_only(plane: ControlPlane) -> None:
    keys = await made_keys(plane)
    await plane.add_proxies(2)
    for session in (OTHER, MINE):
        await plane.provision(sessionId=session)
    headers = {"X-Api-Key": keys["manage-mine"]}
    async with plane.http.get(f"{plane.url}/api/v1/events/stream?after=0", headers=headers) as stream:
        seen: set[str | None] = set()
        async with asyncio.timeout(20):
            async for line in stream.content:
                if line.startswith(b"data:"):
                    seen.add(json.loads(line[5:])["sessionId"])
                    break
    assert seen == {MINE}


# pure ------------------------------------------------------------------------------------------------------------
def test_rights_include_what_they_must() -> None:
    assert with_included([Right.ADMIN]) == frozenset(Right)
    assert with_included([Right.MANAGE]) == {Right.MANAGE, Right.READ}
    assert with_included([Right.SEND]) == {Right.SEND}
    with pytest.raises(Exception, match="not") as refused:
        check_right(Caller(by="x"), None)
    assert refused.value.code == "FORBIDDEN"  # type: ignore[attr-defined]


def test_a_caller_without_limits_sees_what_belongs_to_no_session() -> None:
    assert Caller(by="x").sees(None)
    limited = Caller(by="x", sessions=frozenset({MINE}))
    assert limited.sees(MINE)
    assert not limited.sees(OTHER)
    assert not limited.sees("")
