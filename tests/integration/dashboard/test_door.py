"""Signing in and out, without a browser: cookies, CSRF, guessing."""

from __future__ import annotations

import asyncio

import pytest

from support.control_plane import API_KEY, ControlPlane
from support.visitor import Visitor, cookie_of, sign_in
from wa_orchestrator.dashboard import passwords
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.store.users import User


async def add_user(plane: ControlPlane, name: str, password: str, generation: str = "1") -> None:
    kept = passwords.hashed(password)
    await plane.store.users.put(User(name=name, password_hash=kept, generation=generation, created_at=1))


async def test_the_cookie_is_for_the_server_alone(plane: ControlPlane) -> None:
    answer = await sign_in(plane, API_KEY)
    assert answer.status == 303
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "max-age=86400" in cookie
    assert "secure" not in cookie, "this test speaks plain HTTP"
    assert API_KEY not in answer.headers["set-cookie"]


async def test_behind_a_tls_proxy_the_cookie_is_secure(plane: ControlPlane) -> None:
    answer = await sign_in(plane, API_KEY, **{"X-Forwarded-Proto": "https"})
    assert "secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    ("wanted", "given"),
    [("/messages?status=failed", "/messages?status=failed"), ("https://evil.example/", "/"), ("//evil.example", "/"),
     ("/\\evil.example", "/"), ("/\tx", "/"), ("javascript:alert(1)", "/")],
)  # fmt: skip
async def test_after_signing_in_one_stays_on_this_server(plane: ControlPlane, wanted: str, given: str) -> None:
    answer = await sign_in(plane, API_KEY, next_=wanted)
    assert answer.headers["location"] == given


async def test_a_page_of_another_site_cannot_sign_anybody_in(plane: ControlPlane) -> None:
    assert (await sign_in(plane, API_KEY, **{"Sec-Fetch-Site": "cross-site"})).status == 403
    assert (await sign_in(plane, API_KEY, Origin="https://evil.example")).status == 403
    assert (await sign_in(plane, API_KEY, Origin=plane.url)).status == 303


async def test_users_sign_in_with_their_own_password_only(plane: ControlPlane) -> None:
    await add_user(plane, "dana", "a long password")
    assert (await sign_in(plane, "a long password", name="dana")).status == 303
    for name, password in (
        ("dana", "wrong"),
        ("dana", API_KEY),
        ("nobody", "a long password"),
        ("", "a long password"),
    ):
        answer = await sign_in(plane, password, name=name)
        assert answer.status == 401, (name, password)
        assert "set-cookie" not in answer.headers


async def test_a_new_password_or_removal_ends_earlier_sign_ins(plane: ControlPlane) -> None:
    await add_user(plane, "dana", "a long password")
    dana = Visitor(plane, cookie_of(await sign_in(plane, "a long password", name="dana")))
    assert (await dana.call("GET", "/")).status == 200
    await add_user(plane, "dana", "another password", generation="2")
    assert (await dana.call("GET", "/")).status == 307
    dana.cookie = cookie_of(await sign_in(plane, "another password", name="dana"))
    assert (await dana.call("GET", "/api/sessions")).status == 200
    await plane.store.users.remove("dana")
    assert (await dana.call("GET", "/api/sessions")).status == 401


async def test_signing_out_ends_the_cookie_itself(visitor: Visitor) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    refused = await visitor.call("POST", "/sign-out", raw=b"csrf=wrong", headers=form)
    assert refused.status == 403
    assert (await visitor.call("GET", "/")).status == 200
    done = await visitor.call("POST", "/sign-out", raw=f"csrf={visitor.csrf}".encode(), headers=form)
    assert done.status == 303
    assert (await visitor.call("GET", "/")).status == 307
    assert (await visitor.call("GET", "/api/sessions")).status == 401


async def test_guessing_is_stopped_per_address_also_when_done_in_parallel(plane: ControlPlane) -> None:
    answers = await asyncio.gather(*(sign_in(plane, f"guess {n}") for n in range(30)))
    statuses = [answer.status for answer in answers]
    assert statuses.count(401) == 10
    assert statuses.count(429) == 20
    blocked = next(answer for answer in answers if answer.status == 429)
    assert 0 < int(blocked.headers["retry-after"]) <= 900
    assert (await sign_in(plane, API_KEY)).status == 429, "the right key does not help while blocked"


async def test_a_right_password_starts_the_count_anew(plane: ControlPlane) -> None:
    for _ in range(3):
        for n in range(8):
            assert (await sign_in(plane, f"guess {n}")).status == 401
        assert (await sign_in(plane, API_KEY)).status == 303


async def test_a_cookie_changes_nothing_without_the_pages_token(visitor: Visitor) -> None:
    for csrf in ("", "wrong", visitor.csrf[:-1]):
        answer = await visitor.call("POST", "/api/v1/proxies", {"proxy": "socks5h://127.0.0.1:9"}, csrf=csrf)
        assert (answer.status, answer.code) == (403, "CSRF_FAILED")
        sent = await visitor.call("POST", "/api/v1/send", {"to": "972501234567", "message": "x"}, csrf=csrf)
        assert (sent.status, sent.code) == (403, "CSRF_FAILED")
    assert (await visitor.call("POST", "/api/v1/proxies", {"proxy": "socks5h://127.0.0.1:9"})).status == 201
    assert (await visitor.call("GET", "/api/v1/proxies", csrf="")).status == 200


async def test_a_wrong_key_is_not_helped_by_a_cookie(visitor: Visitor) -> None:
    answer = await visitor.call("GET", "/api/sessions", headers={"X-Api-Key": "wrong"})
    assert answer.status == 401


async def test_who_sent_a_message_is_kept(visitor: Visitor, plane: ControlPlane) -> None:
    answer = await visitor.call("POST", "/api/v1/send", {"to": "972501234567", "message": "x"})
    assert answer.status == 202
    record = await plane.store.messages.get(answer.json["messageId"])
    assert record["by"] == "dashboard"


async def test_a_store_that_is_away_is_told_on_a_page(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(visitor.plane.store.connection, "call", away)
    answer = await visitor.call("GET", "/")
    assert answer.status == 503
    assert b"<h1>Back in a moment" in answer.body


async def test_what_was_written_into_the_name_field_is_not_logged(
    plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    await sign_in(plane, "x", name="my-secret-password")
    assert "my-secret-password" not in capsys.readouterr().out
