"""Every page and route: closed without a sign-in, open with it, keeping to itself, showing no secret."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.routing import Mount, WebSocketRoute

from support.control_plane import API_KEY, PROXY_PASSWORD, WEBHOOK_SECRET, ControlPlane
from support.visitor import Visitor
from wa_orchestrator.http.app import build_app

PAGES = ("/", "/scan", "/messages", "/proxies", "/anti-ban", "/alerts", "/backups", "/suppression", "/keys", "/audit",
         "/live-log", "/check-up")  # fmt: skip
PARTS = ("/parts/sessions", "/parts/chart", "/parts/messages", "/parts/proxies", "/parts/anti-ban", "/parts/alerts",
         "/parts/backups", "/parts/suppression", "/parts/keys", "/parts/audit", "/parts/events",
         "/parts/check-up")  # fmt: skip
# what is open on purpose: whether the server lives, the door, the assets
OPEN = {"/health", "/ready", "/metrics", "/sign-in", "/sign-out",
        "/assets/{version}/{path:path}"}  # fmt: skip


def routes(app: Any) -> list[tuple[str, str]]:
    """(method, path) of everything the framework serves; it keeps included routers as they are, with their prefix."""
    while not isinstance(app, FastAPI):
        app = app._inner
    waiting: list[Any] = list(app.routes)
    found: list[tuple[str, str]] = []
    while waiting:
        route = waiting.pop()
        if hasattr(route, "effective_candidates"):
            waiting += route.effective_candidates()
        elif getattr(route, "methods", None):
            found += [(method, route.path) for method in route.methods - {"HEAD", "OPTIONS"}]
        else:
            # the document's own assets; the socket asks for the key itself
            inner = getattr(route, "starlette_route", route)
            assert isinstance(inner, (Mount, WebSocketRoute)), route
    return found


async def test_nothing_works_without_a_sign_in_but_what_must(plane: ControlPlane) -> None:
    walked = 0
    for method, path in routes(build_app(plane.server.rooms)):
        if path in OPEN:
            continue
        real = re.sub(r"\{[^}]+\}", "any", path)
        for headers in ({}, {"Cookie": "wa_sign_in=forged.forged", "X-CSRF-Token": "x"}):
            answer = await plane.call(method, real, {} if method != "GET" else None, key=None, headers=headers)
            door = answer.status == 307 and answer.headers["location"].startswith("/sign-in?next=")
            no_link = path.startswith("/scan/{token}") and answer.status in {404, 422}
            assert door or no_link or answer.status == 401, (method, path, answer.status, answer.body[:200])
            walked += 1
    assert walked > 150


@pytest.mark.parametrize("path", [*PAGES, *PARTS])
async def test_every_page_opens_on_an_empty_server(visitor: Visitor, path: str) -> None:
    await visitor.get(path)


@pytest.mark.parametrize("language", ["en", "he"])
async def test_every_page_opens_with_sessions_and_shows_no_secret(
    visitor: Visitor, plane: ControlPlane, language: str
) -> None:
    await plane.add_proxies(2)
    session = await plane.provision(phone="972501234567", label='<script>alert("x")</script>')
    await plane.event(session, "QR_CODE", {"qr": "the-code", "expiresAt": 0})
    sent = await plane.call(
        "POST", "/api/v1/send", {"to": "972507654321", "message": "<b>hello</b>", "sessionId": session}
    )
    received = {"waMessageId": "3A01", "from": "972507654321", "pushName": '<script>alert("x")</script>',
                "text": '<script>alert("x")</script>', "replyTo": {"waMessageId": "3A00", "text": "<b>x</b>"},
                "media": {"kind": "document", "fileName": "<b>.html", "state": "off"}}  # fmt: skip
    await plane.event(session, "MESSAGE_RECEIVED", received)
    paths = [*PAGES, *PARTS, f"/sessions/{session}", f"/sessions/{session}/inbox",
             f"/sessions/{session}/inbox?chat=972507654321", f"/parts/inbox/{session}?chat=x",
             f"/parts/session/{session}", f"/parts/log/{session}",
             f"/scan?session={session}", f"/parts/scan/{session}", f"/anti-ban/{session}", f"/parts/limits/{session}",
             f"/messages/{sent.json['messageId']}", f"/parts/message/{sent.json['messageId']}",
             "/?search=script&group=waiting&sort=-today&page=3", "/messages?search=9725&status=queued",
             "/live-log?kind=sessions&search=worker", "/anti-ban?held=1", "/parts/chart?range=two-days"]  # fmt: skip
    for path in paths:
        answer = await visitor.call("GET", path, headers={"Accept-Language": language})
        assert answer.status == 200, (path, answer.body[:300])
        text = answer.body.decode()
        for secret in (API_KEY, WEBHOOK_SECRET, PROXY_PASSWORD, "the-code", visitor.cookie):
            assert secret not in text, (path, secret)
        if answer.headers["content-type"] == "application/json":
            continue  # text for a script, which puts it in as text
        assert "<script>alert" not in text
        assert "<b>hello" not in text
        assert not re.search(r'\sstyle="|\son[a-z]+="', text), f"{path}: the policy forbids inline styles and handlers"


async def test_pages_keep_to_themselves(visitor: Visitor) -> None:
    for path in (*PAGES, "/sign-in", "/parts/sessions", "/sessions/nobody"):
        headers = (await visitor.call("GET", path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


async def test_pages_name_no_other_host(visitor: Visitor, plane: ControlPlane) -> None:
    for path in PAGES:
        for address in re.findall(r'(?:src|href|action)="([^"]+)"', await visitor.get(path)):
            assert address.startswith(("/", "#", "?")), (path, address)


async def test_assets_are_kept_for_ever_and_nothing_else_is_served(visitor: Visitor, plane: ControlPlane) -> None:
    page = await visitor.get("/")
    for address in re.findall(r'(?:src|href)="(/assets/[^"#]+)"', page):
        answer = await plane.call("GET", address, key=None)
        assert answer.status == 200, address
        assert "immutable" in answer.headers["cache-control"]
    for odd in (
        "/assets/x/../rendering.py",
        "/assets/x/%2e%2e/rendering.py",
        "/assets/x//etc/passwd",
        "/assets/x/none.js",
    ):
        assert (await plane.call("GET", odd, key=None)).status in {307, 404}


@pytest.mark.parametrize("path", ["/sessions/nobody", "/sessions/%3Cscript%3E", "/messages/nothing", "/anti-ban/x y",
                                  "/scan?session=nobody"])  # fmt: skip
async def test_what_is_not_there_is_told_on_a_page(visitor: Visitor, path: str) -> None:
    answer = await visitor.call("GET", path)
    assert answer.status in {400, 404}
    assert b"<h1>" in answer.body


async def test_a_search_that_looks_like_markup_stays_text(visitor: Visitor) -> None:
    assert "<svg/onload" not in await visitor.get("/?search=%22%3E%3Csvg/onload=alert(1)%3E")


async def test_settings_are_shown_without_secrets(visitor: Visitor) -> None:
    page = await visitor.get("/check-up")
    assert "MAX_SESSIONS_PER_PROXY" in page
    assert "•••" in page
    assert "redis://" not in page
