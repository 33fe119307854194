"""Sessions over HTTP: made, looked at, scanned, ordered, deleted."""

from __future__ import annotations

import asyncio
import base64
import os
import re
import signal
from typing import Any

import pytest

from support.control_plane import ControlPlane, proxy_url
from support.leftovers import environment_of
from support.waiting import wait_until

PHONE, OTHER_PHONE = "972501234567", "972501234568"
LINKED = {"phoneNumber": PHONE, "jid": f"{PHONE}:1@s.whatsapp.net", "fingerprint": "f"}


async def until_status(plane: ControlPlane, session_id: str, status: str) -> None:
    async def there() -> bool:
        return await plane.status(session_id) == status

    there.__name__ = f"{session_id} is {status}"
    await wait_until(there, timeout_s=10)


async def test_a_provisioned_session_has_a_running_worker_on_its_proxy(plane: ControlPlane) -> None:
    (proxy_id,) = await plane.add_proxies(1)
    made = await plane.good("POST", "/api/sessions/provision", {"phone": f"+{PHONE}", "label": "Shop"}, status=201)
    assert made == {
        "sessionId": "worker_1",
        "status": "pending",
        "proxy": {"id": proxy_id, "host": "127.0.0.1", "port": 1},
        "createdAt": made["createdAt"],
    }
    pid = await plane.pid("worker_1")
    assert pid is not None
    env = environment_of(pid)
    assert env["PROXY_URL"] == proxy_url(0)
    assert env["SESSION_ID"] == "worker_1"
    assert env["WEBHOOK_URL"] == f"{plane.url}/api/webhook"
    found = await plane.good("GET", "/api/sessions/worker_1")
    assert (found["phone"], found["label"], found["trust"]["level"]) == (PHONE, "Shop", "cold")
    assert found == await plane.good("GET", "/api/sessions/worker_1/status")
    assert found == await plane.good("GET", "/api/v1/sessions/worker_1"), "paths are served with and without v1"


async def test_an_empty_body_is_enough(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    assert (await plane.call("POST", "/api/sessions/provision")).status == 201
    assert (await plane.call("POST", "/api/sessions/provision", {})).status == 201


async def test_what_stands_in_the_way_is_said(plane: ControlPlane) -> None:
    answer = await plane.call("POST", "/api/sessions/provision", {})
    assert (answer.status, answer.code) == (503, "NO_PROXY_AVAILABLE")
    assert answer.headers["retry-after"]
    first, second = await plane.add_proxies(2)
    await plane.provision(phone=PHONE, sessionId="shop", proxy=first)
    for body, status, code in [
        ({"sessionId": "shop"}, 409, "SESSION_EXISTS"),
        ({"phone": PHONE}, 409, "PHONE_ALREADY_REGISTERED"),
        ({"phone": PHONE, "allowAdditional": True, "proxy": second}, 409, "PHONE_ON_OTHER_PROXY"),
        ({"proxy": "px_000000000000"}, 404, "PROXY_NOT_FOUND"),
        ({"phone": "12"}, 400, "INVALID_PHONE"),
        ({"proxy": "socks5://h:1"}, 400, "INVALID_PROXY"),
        ({"sessionId": "a:b"}, 400, "INVALID_SESSION_ID"),
    ]:
        answer = await plane.call("POST", "/api/sessions/provision", body)
        assert (answer.status, answer.code) == (status, code), answer.body
    registered = await plane.call("POST", "/api/sessions/provision", {"phone": PHONE})
    assert registered.json["error"]["details"]["sessionId"] == "shop"
    for _ in range(3):
        await plane.provision(proxy=first)
    assert (await plane.call("POST", "/api/sessions/provision", {"proxy": first})).code == "PROXY_FULL"


async def test_a_full_own_proxy_is_said_and_rebind_connects_elsewhere(plane: ControlPlane) -> None:
    own, other = await plane.add_proxies(2)
    session = await plane.provision(phone=PHONE, proxy=own)
    await plane.event(session, "CONNECTED", LINKED)
    await plane.good("DELETE", f"/api/sessions/{session}")
    for _ in range(4):
        await plane.provision(proxy=own)
    assert (await plane.call("POST", "/api/sessions/provision", {"phone": PHONE})).code == "STICKY_PROXY_FULL"
    again = await plane.provision(phone=PHONE, rebind=True)
    assert (await plane.event(again, "CONNECTED", LINKED)).status == 200
    found = await plane.good("GET", f"/api/sessions/{again}")
    assert (found["status"], found["proxy"]["id"]) == ("connected", other)


async def test_the_older_name_of_proxy_is_accepted(plane: ControlPlane) -> None:
    session = await plane.provision(proxyOverride=proxy_url(7))
    found = await plane.good("GET", f"/api/sessions/{session}")
    assert found["proxy"]["port"] == 8


async def test_nothing_remains_when_the_worker_cannot_start(plane: ControlPlane) -> None:
    (proxy_id,) = await plane.add_proxies(1)
    plane.server.rooms.lifecycle._runner._command = ("/nowhere/worker",)  # type: ignore[attr-defined]
    answer = await plane.call("POST", "/api/sessions/provision", {"phone": PHONE, "sessionId": "shop"})
    assert (answer.status, answer.code) == (503, "RUNNER_UNAVAILABLE")
    assert (await plane.good("GET", "/api/sessions"))["total"] == 0
    assert (await plane.good("GET", f"/api/v1/proxies/{proxy_id}"))["slotsUsed"] == 0
    assert not plane.folder("shop").exists()


# codes ------------------------------------------------------------------------------------------------------------
async def test_the_code_comes_as_json_png_svg_and_raw(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    path = f"/api/sessions/{session}/qr"
    missing = await plane.call("GET", path)
    assert (missing.status, missing.code) == (404, "QR_NOT_READY")
    await plane.event(session, "QR_CODE", {"qr": "2@code", "expiresInMs": 20_000})
    assert await plane.status(session) == "qr_ready"
    shown = await plane.good("GET", path)
    assert shown["qr"] == "2@code"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", shown["expiresAt"])
    png = await plane.call("GET", f"{path}?format=png")
    assert (png.headers["content-type"], png.body[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")
    assert shown["image"] == "data:image/png;base64," + base64.b64encode(png.body).decode()
    svg = await plane.call("GET", f"{path}?format=svg")
    assert svg.headers["content-type"].startswith("image/svg+xml")
    assert b"<svg" in svg.body
    raw = await plane.call("GET", f"{path}?format=raw")
    assert raw.body == b"2@code"
    wrong = await plane.call("GET", f"{path}?format=gif")
    assert (wrong.status, wrong.field) == (422, "format")


async def test_a_connected_session_needs_no_code(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    await plane.event(session, "QR_CODE", {"qr": "2@code"})
    await plane.event(session, "CONNECTED", LINKED)
    qr = await plane.call("GET", f"/api/sessions/{session}/qr")
    assert (qr.status, qr.code) == (409, "ALREADY_CONNECTED")
    pairing = await plane.call("POST", f"/api/sessions/{session}/pairing-code", {"phone": PHONE})
    assert (pairing.status, pairing.code) == (409, "ALREADY_CONNECTED")


async def test_a_pairing_code_comes_from_the_worker(tiny_plane: ControlPlane) -> None:
    plane = tiny_plane
    await plane.add_proxies(1)
    session = await plane.provision()
    found = await plane.good("POST", f"/api/sessions/{session}/pairing-code", {"phone": "+972 50-123-4567"})
    assert found == {"code": "TINY1234", "phone": PHONE}
    events = (await plane.good("GET", f"/api/sessions/{session}/events"))["events"]
    assert "TINY1234" not in str(events)
    await plane.good("POST", f"/api/sessions/{session}/stop")
    stopped = await plane.call("POST", f"/api/sessions/{session}/pairing-code", {"phone": PHONE})
    assert (stopped.status, stopped.code) == (409, "SESSION_NOT_RUNNING")


async def test_scanning_logging_out_and_scanning_again(tiny_plane: ControlPlane) -> None:
    plane = tiny_plane
    await plane.add_proxies(1)
    session = await plane.provision()
    await until_status(plane, session, "qr_ready")
    (plane.folder(session) / "connect-as").write_text(PHONE)
    await until_status(plane, session, "connected")
    await plane.good("POST", f"/api/sessions/{session}/logout")
    await until_status(plane, session, "logged_out")
    again = await plane.good("POST", f"/api/sessions/{session}/logout")
    assert again["status"] == "logged_out", "repeating a logout is harmless"

    async def gone() -> bool:
        return await plane.pid(session) is None

    await wait_until(gone, timeout_s=10)
    await plane.good("POST", f"/api/sessions/{session}/restart")
    await until_status(plane, session, "qr_ready")


# orders -----------------------------------------------------------------------------------------------------------
async def test_start_and_stop_may_be_repeated(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    first = await plane.pid(session)
    assert (await plane.good("POST", f"/api/sessions/{session}/start"))["wanted"] == "running"
    assert await plane.pid(session) == first, "starting what runs touches nothing"
    for _ in range(2):
        stopped = await plane.good("POST", f"/api/sessions/{session}/stop")
        assert (stopped["status"], stopped["wanted"]) == ("stopped", "stopped")
        assert stopped["proxy"], "the slot stays"
    assert await plane.pid(session) is None
    for _ in range(2):
        assert (await plane.good("POST", f"/api/sessions/{session}/start"))["status"] == "pending"
    second = await plane.pid(session)
    assert second not in {None, first}
    for _ in range(2):
        await plane.good("POST", f"/api/sessions/{session}/restart")
    assert await plane.pid(session) not in {None, first, second}


async def test_ten_restarts_at_once_leave_one_worker(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    answers = await asyncio.gather(*(plane.call("POST", f"/api/sessions/{session}/restart") for _ in range(10)))
    assert {a.status for a in answers} == {200}
    running = await plane.server.rooms.lifecycle._runner.list_running()
    assert [w.session_id for w in running] == [session]


async def test_deleting_three_times_changes_nothing_further(plane: ControlPlane) -> None:
    (proxy_id,) = await plane.add_proxies(1)
    session, other = await plane.provision(), await plane.provision()
    (plane.folder(session) / "creds.json").write_text("{}")
    answers = [await plane.good("DELETE", f"/api/sessions/{session}") for _ in range(3)]
    assert [a["already"] for a in answers] == [False, True, True]
    assert (await plane.good("GET", f"/api/v1/proxies/{proxy_id}"))["sessions"] == [other]
    assert await plane.pid(session) is None
    assert not plane.folder(session).exists()
    (kept,) = (plane.folder(session).parent / ".aside").iterdir()
    assert (kept / "creds.json").exists(), "the auth folder is kept aside"
    gone = await plane.call("GET", f"/api/sessions/{session}")
    assert (gone.status, gone.code) == (404, "SESSION_NOT_FOUND")
    never = await plane.call("DELETE", "/api/sessions/nobody")
    assert (never.status, never.code) == (404, "SESSION_NOT_FOUND")


async def test_deletes_at_the_same_moment_all_succeed(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    answers = await asyncio.gather(*(plane.call("DELETE", f"/api/sessions/{session}") for _ in range(8)))
    assert {a.status for a in answers} == {200}, [a.body for a in answers]
    assert (await plane.good("DELETE", f"/api/sessions/{session}"))["already"]
    assert (await plane.good("GET", "/api/v1/proxies"))["proxies"][0]["slotsUsed"] == 0


async def test_the_binding_survives_deletion_unless_forgotten(plane: ControlPlane) -> None:
    _, other = await plane.add_proxies(2)
    session = await plane.provision(proxy=other)
    await plane.event(session, "CONNECTED", LINKED)
    await plane.good("DELETE", f"/api/sessions/{session}")
    assert await plane.store.sessions.bound_proxy(PHONE) == other
    session = await plane.provision(phone=PHONE)
    assert (await plane.good("GET", f"/api/sessions/{session}"))["proxy"]["id"] == other
    await plane.good("DELETE", f"/api/sessions/{session}?forget=true")
    assert await plane.store.sessions.bound_proxy(PHONE) is None


async def test_a_killed_worker_comes_back(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    pid = await plane.pid(session)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    async def back() -> bool:
        return await plane.pid(session) not in {None, pid}

    await wait_until(back)
    assert (await plane.good("GET", f"/api/sessions/{session}"))["restarts"] == 1


# lists ------------------------------------------------------------------------------------------------------------
async def test_the_list_filters_searches_and_pages(plane: ControlPlane) -> None:
    await plane.add_proxies(2)
    for name, label in (("a", "Shop north"), ("b", "Shop south"), ("c", "Office"), ("d", ""), ("e", "")):
        await plane.provision(sessionId=name, label=label)
    await plane.event("c", "CONNECTED", LINKED)

    async def ids(query: str) -> list[str]:
        return [s["sessionId"] for s in (await plane.good("GET", f"/api/sessions?{query}"))["sessions"]]

    assert await ids("") == ["a", "b", "c", "d", "e"]
    assert await ids("status=connected") == ["c"]
    assert await ids("search=shop") == ["a", "b"]
    assert await ids("search=SHOP+south") == ["b"]
    assert await ids(f"search={PHONE[:6]}") == ["c"]
    assert await ids("search=nothing") == []
    seen: list[str] = []
    cursor = ""
    while True:
        page = await plane.good("GET", f"/api/sessions?limit=2&cursor={cursor}")
        assert page["total"] == 5
        seen += [s["sessionId"] for s in page["sessions"]]
        if not page["nextCursor"]:
            break
        cursor = page["nextCursor"]
    assert seen == ["a", "b", "c", "d", "e"]


async def test_paging_goes_on_though_the_last_shown_session_was_deleted(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    for name in ("a", "b", "c", "d"):
        await plane.provision(sessionId=name)
    page = await plane.good("GET", "/api/sessions?limit=2")
    await plane.good("DELETE", "/api/sessions/b")
    rest = await plane.good("GET", f"/api/sessions?limit=2&cursor={page['nextCursor']}")
    assert [s["sessionId"] for s in rest["sessions"]] == ["c", "d"]


_WRONG_FILTERS = [("status=dancing", "status"), ("limit=0", "limit"), ("limit=x", "limit"), ("limit=1001", "limit"),
                  ("search=" + "x" * 201, "search"), ("cursor=nonsense", "cursor")]  # fmt: skip


async def test_a_wrong_filter_is_named(plane: ControlPlane) -> None:
    for query, field in _WRONG_FILTERS:
        answer = await plane.call("GET", f"/api/sessions?{query}")
        assert (answer.status, answer.field) == (422, field)


async def test_a_sessions_story_is_told_newest_first(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await plane.provision()
    await plane.event(session, "QR_CODE", {"qr": "2@secret"})
    await plane.event(session, "CONNECTED", LINKED)
    events: list[dict[str, Any]] = (await plane.good("GET", f"/api/sessions/{session}/events"))["events"]
    numbers = [e["number"] for e in events]
    assert numbers == sorted(numbers, reverse=True)
    kinds = [e["type"] for e in reversed(events)]
    assert kinds == ["session.created", "QR_CODE", "session.status", "CONNECTED", "session.status"]
    assert "2@secret" not in str(events), "the code links a device: it is not kept"
    assert len((await plane.good("GET", f"/api/sessions/{session}/events?limit=1"))["events"]) == 1
    await plane.good("DELETE", f"/api/sessions/{session}")
    told = (await plane.good("GET", f"/api/sessions/{session}/events"))["events"]
    assert told[0]["type"] == "session.deleted", "the story outlives the session"
    assert (await plane.call("GET", "/api/sessions/nobody/events")).status == 404


async def test_two_control_planes_on_one_data_folder_are_refused(plane: ControlPlane) -> None:
    from support.control_plane import control_plane
    from wa_orchestrator.errors import SettingsError

    with pytest.raises(SettingsError, match="Another server already runs"):
        async with control_plane(plane.data):
            pass
