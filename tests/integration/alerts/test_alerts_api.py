"""The whole way in a running server: an event comes in, an alert goes out, the list, the page and the test call."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import redis

from support.alerts import CHAT, TOKEN, BotApi, bot_api
from support.control_plane import API_KEY, ControlPlane, control_plane
from support.servers import StoreServer
from support.visitor import Visitor, cookie_of, sign_in
from support.waiting import wait_until as _wait_until

wait_until = partial(_wait_until, timeout_s=30)
_QUICK = {"ALERT_DIGEST_MS": "300", "ALERT_LANGUAGE": "en"}
PHONE = "972500000001"


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with bot_api() as running:
        yield running


@pytest.fixture
async def plane(valkey: StoreServer, tmp_path: Path, api: BotApi) -> AsyncIterator[ControlPlane]:
    with redis.Redis(port=valkey.port) as client:
        client.flushall()
    async with control_plane(
        tmp_path / "data", REDIS_URL=valkey.url, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_CHAT_ID=CHAT,
        TELEGRAM_API_URL=api.url, **_QUICK,
    ) as running:  # fmt: skip
        yield running


async def linked(plane: ControlPlane, phone: str = PHONE, **more: str) -> str:
    session_id = await plane.provision(phone=phone, **more)
    assert (await plane.event(session_id, "CONNECTED", {"phoneNumber": phone})).status == 200
    return session_id


async def test_a_session_is_told_when_it_connects_is_lost_and_returns(plane: ControlPlane, api: BotApi) -> None:
    await plane.add_proxies(2)
    session_id = await linked(plane, label="Front <desk>")
    name = f"Front &lt;desk&gt; ({session_id})"
    await wait_until(lambda: api.texts == [f"<b>✅ {name} is connected</b>"])
    await plane.event(session_id, "DISCONNECTED", {"reason": "logged_out", "code": 401})
    await wait_until(lambda: len(api.texts) == 2)
    assert api.texts[1].startswith(f"<b>⚠️ {name} was logged out</b>")

    found = await plane.good("GET", "/api/v1/alerts")
    (stands,) = found["standing"]
    assert (stands["kind"], stands["severity"], stands["subjects"]) == (
        "logged_out",
        "critical",
        [f"session:{session_id}"],
    )
    assert [alert["kind"] for alert in found["recent"]] == ["logged_out", "connected"]
    assert found["channel"] | {"lastSentAt": ""} == {
        "configured": True, "waiting": 0, "leftOut": 0, "problem": None, "problemSince": None, "lastSentAt": "",
    }  # fmt: skip
    assert found == await plane.good("GET", "/api/alerts")

    story = await plane.good("GET", f"/api/sessions/{session_id}/events")
    assert [e["data"]["kind"] for e in story["events"] if e["type"] == "alert.raised"] == ["logged_out", "connected"]

    await plane.good("POST", f"/api/sessions/{session_id}/start")
    await plane.event(session_id, "CONNECTED", {"phoneNumber": PHONE})
    await wait_until(lambda: len(api.texts) == 3)
    assert api.texts[2].startswith(f"<b>✅ {name} is connected again</b>")
    assert (await plane.good("GET", "/api/v1/alerts"))["standing"] == []


async def test_a_dead_proxy_is_told_with_the_sessions_it_took_along(plane: ControlPlane, api: BotApi) -> None:
    await plane.good("POST", "/api/v1/proxies", {"proxy": "socks5h://u:hunter2@127.0.0.1:1"}, status=201)
    sessions = [await linked(plane, f"97250000000{n}") for n in range(3)]
    await wait_until(lambda: any("connected" in text for text in api.texts))
    await plane.good("POST", "/api/v1/proxies", {"proxy": "socks5h://u:hunter2@127.0.0.1:2"}, status=201)
    await plane.event(sessions[0], "PROXY_ERROR", {"error": "socks5h://u:hunter2@127.0.0.1:1 refused"})
    await wait_until(lambda: any("Proxy 127.0.0.1:1 has failed: 3 sessions moved" in text for text in api.texts))
    for n, session_id in enumerate(sessions):
        await plane.event(session_id, "CONNECTED", {"phoneNumber": f"97250000000{n}"})
    await wait_until(lambda: any("3 sessions are connected again, after proxy" in text for text in api.texts))
    assert not any("hunter2" in text for text in api.texts)


async def test_the_test_call_writes_at_once_and_says_what_is_wrong(plane: ControlPlane, api: BotApi) -> None:
    assert await plane.good("POST", "/api/v1/alerts/test") == {"sent": True}
    assert api.texts == ["✅ This is a test. Alerts arrive here."]
    api.answers = [(401, {})]
    refused = await plane.call("POST", "/api/v1/alerts/test")
    assert (refused.status, refused.code) == (409, "TELEGRAM_REFUSED")
    assert "TELEGRAM_BOT_TOKEN" in refused.json["error"]["message"]
    api.answers = [(429, {"parameters": {"retry_after": 5}})]
    busy = await plane.call("POST", "/api/v1/alerts/test")
    assert (busy.status, busy.code, busy.headers["retry-after"]) == (503, "TELEGRAM_AWAY", "5")
    assert TOKEN not in busy.body.decode()


async def test_without_settings_the_test_call_says_which_are_missing(valkey: StoreServer, tmp_path: Path) -> None:
    async with control_plane(tmp_path / "data", REDIS_URL=valkey.url) as plane:
        answer = await plane.call("POST", "/api/v1/alerts/test")
        assert (answer.status, answer.code) == (409, "ALERTS_OFF")


async def test_telegram_hanging_holds_up_nothing_else(plane: ControlPlane, api: BotApi) -> None:
    api.slow = asyncio.Event()
    await plane.add_proxies(2)
    await linked(plane)
    await wait_until(lambda: bool(api.texts))
    async with asyncio.timeout(14):  # well before anything gives up
        await linked(plane, "972500000002")
        await wait_until(lambda: _told(plane, 2))
    api.slow.set()
    await wait_until(lambda: len(api.texts) == 2)


async def _told(plane: ControlPlane, count: int) -> bool:
    return len((await plane.good("GET", "/api/v1/alerts"))["recent"]) == count


@pytest.mark.parametrize(("language", "word"), [("en", "was logged out"), ("he", "נותק מהמכשיר")])
async def test_the_page_shows_alerts_and_stock_in_the_visitors_language(
    plane: ControlPlane, language: str, word: str
) -> None:
    await plane.add_proxies(1)
    session_id = await linked(plane)
    await plane.event(session_id, "DISCONNECTED", {"reason": "logged_out", "code": 401})
    await wait_until(lambda: _told(plane, 2))
    visitor = Visitor(plane, f"{cookie_of(await sign_in(plane, API_KEY))}; wa_lang={language}")
    page = await visitor.get("/alerts")
    assert word in page
    assert re.search(r'<span class="tile-number"><bdi dir="ltr">3</bdi>', page), "three of four slots are free"
    assert word in await visitor.get("/parts/alerts")
    # what the journal says is in the language of alerts
    assert "was logged out" in await visitor.get("/live-log?kind=alerts")


async def test_a_refusing_chat_is_a_finding_of_the_check_up(plane: ControlPlane, api: BotApi) -> None:
    api.answers = [(403, {"description": "Forbidden: bot was blocked by the user"})] * 5
    await plane.add_proxies(1)
    await linked(plane)

    async def problem() -> bool:
        return bool((await plane.good("GET", "/api/v1/alerts"))["channel"]["problem"] == "chat")

    await wait_until(problem)
    visitor = Visitor(plane, cookie_of(await sign_in(plane, API_KEY)))
    assert "TELEGRAM_CHAT_ID" in await visitor.get("/check-up")
    # it is put right, and the test call sets the queue going
    api.answers = []
    await plane.good("POST", "/api/v1/alerts/test")
    await wait_until(lambda: len(api.texts) == 2)


async def test_a_backup_is_told(plane: ControlPlane, api: BotApi) -> None:
    made = await plane.call("POST", "/api/v1/backups/create")
    assert made.status in {200, 201, 202}, made.body
    await wait_until(lambda: any("Backup made: backup_" in text for text in api.texts))
