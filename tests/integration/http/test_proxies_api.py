"""Proxies over HTTP: add, import, list, check, drain, remove."""

from __future__ import annotations

from support.control_plane import PROXY_PASSWORD, ControlPlane, proxy_url
from support.leftovers import environment_of
from support.socks_server import SocksServer
from support.waiting import wait_until


async def test_adding_twice_is_one_proxy(plane: ControlPlane) -> None:
    first = await plane.good("POST", "/api/v1/proxies", {"proxy": proxy_url(0)}, status=201)
    again = await plane.good("POST", "/api/v1/proxies", {"proxy": proxy_url(0, password="other")}, status=200)
    assert first["id"] == again["id"]
    listed = await plane.good("GET", "/api/v1/proxies")
    assert (listed["total"], listed["proxies"][0]["host"], listed["proxies"][0]["port"]) == (1, "127.0.0.1", 1)
    stored = await plane.store.proxies.get(first["id"])
    assert stored.address.password == "other", "a changed password is taken over"
    assert (await plane.good("GET", f"/api/proxies/{first['id']}"))["slotsTotal"] == 4


async def test_an_import_takes_what_is_good_and_names_the_lines_that_are_not(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    lines = [
        "# our proxies",
        proxy_url(0),
        f"h1.example:1080:user:{PROXY_PASSWORD}",
        f"user:{PROXY_PASSWORD}@h2.example:1080",
        f"http://user:{PROXY_PASSWORD}@h3.example:8080",
        "",
        f"h4.example:user:{PROXY_PASSWORD}",
    ]
    answer = await plane.call("POST", "/api/v1/proxies/import", raw="\n".join(lines).encode())
    assert answer.status == 200
    found = answer.json
    assert (found["added"], found["known"], [e["line"] for e in found["errors"]]) == (2, 1, [5, 7])
    assert PROXY_PASSWORD.encode() not in answer.body
    assert (await plane.good("GET", "/api/v1/proxies"))["total"] == 3
    wrong = await plane.call("POST", "/api/v1/proxies/import", raw=b"\xff\xfe")
    assert (wrong.status, wrong.code) == (400, "BAD_REQUEST")


async def test_a_check_tells_the_truth_and_a_proxy_comes_back(plane: ControlPlane) -> None:
    target = ("127.0.0.1", plane.server.settings.port)
    async with SocksServer(user="u", password="right", names={"127.0.0.1": target}) as socks:
        wrong = socks.url.replace("right", "wrong")
        added = await plane.good("POST", "/api/v1/proxies", {"proxy": wrong}, status=201)
        path = f"/api/v1/proxies/{added['id']}/check"
        checked = await plane.good("POST", path)
        assert (checked["check"]["ok"], checked["check"]["kind"], checked["status"]) == (False, "auth", "bad")
        assert checked["lastError"]["text"] == checked["check"]["text"]
        assert checked["badAt"]
        assert "wrong" not in str(checked).replace("wrong user", "").replace("wrong pass", "")
        refused = await plane.call("POST", "/api/sessions/provision", {"proxy": added["id"]})
        assert (refused.status, refused.code) == (409, "PROXY_BAD")
        await plane.good("POST", "/api/v1/proxies", {"proxy": socks.url})
        checked = await plane.good("POST", path)
        assert (checked["check"]["ok"], checked["status"], checked["badAt"]) == (True, "active", None)
        assert checked["latencyMs"] is not None
    unknown = await plane.call("POST", "/api/v1/proxies/px_000000000000/check")
    assert (unknown.status, unknown.code) == (404, "PROXY_NOT_FOUND")


async def test_a_check_that_fails_moves_the_sessions(plane: ControlPlane) -> None:
    (dead,) = await plane.add_proxies(1)
    sessions = [await plane.provision() for _ in range(3)]
    other = (await plane.good("POST", "/api/v1/proxies", {"proxy": proxy_url(1)}, status=201))["id"]
    checked = await plane.good("POST", f"/api/v1/proxies/{dead}/check")
    assert (checked["status"], checked["slotsUsed"], checked["check"]["kind"]) == ("bad", 0, "refused")
    assert (await plane.good("GET", f"/api/v1/proxies/{other}"))["sessions"] == sessions
    for session in sessions:
        pid = await plane.pid(session)
        assert pid is not None
        assert environment_of(pid)["PROXY_URL"] == proxy_url(1), "the worker itself runs on the new proxy"


async def test_a_proxy_with_sessions_is_removed_only_by_draining(plane: ControlPlane) -> None:
    first, second = await plane.add_proxies(2)
    session = await plane.provision(proxy=first)
    refused = await plane.call("DELETE", f"/api/v1/proxies/{first}")
    assert (refused.status, refused.code) == (409, "PROXY_IN_USE")
    drained = await plane.good("DELETE", f"/api/v1/proxies/{first}?drain=true")
    assert (drained["removed"], drained["moving"]) == (True, 0)
    assert (await plane.good("GET", f"/api/sessions/{session}"))["proxy"]["id"] == second
    assert (await plane.call("DELETE", f"/api/v1/proxies/{first}")).status == 404


async def test_a_proxy_that_cannot_be_drained_yet_says_so_and_takes_no_new_session(plane: ControlPlane) -> None:
    (only,) = await plane.add_proxies(1)
    session = await plane.provision()
    answer = await plane.call("DELETE", f"/api/v1/proxies/{only}?drain=true")
    assert (answer.status, answer.json["removed"], answer.json["moving"]) == (202, False, 1)
    found = await plane.good("GET", f"/api/v1/proxies/{only}")
    assert (found["draining"], found["sessions"]) == (True, [session])
    assert (await plane.call("POST", "/api/sessions/provision", {})).code == "NO_PROXY_AVAILABLE"
    assert await plane.pid(session) is not None, "its session goes on: the proxy works"


async def test_a_draining_proxy_is_left_as_soon_as_another_is_there(plane: ControlPlane) -> None:
    (only,) = await plane.add_proxies(1)
    session = await plane.provision()
    await plane.call("DELETE", f"/api/v1/proxies/{only}?drain=true")
    target = ("127.0.0.1", plane.server.settings.port)
    async with SocksServer(names={"127.0.0.1": target}) as socks:
        added = await plane.good("POST", "/api/v1/proxies", {"proxy": socks.url}, status=201)

        async def moved() -> bool:
            found = await plane.good("GET", f"/api/sessions/{session}")
            return bool(found["proxy"]["id"] == added["id"])

        await wait_until(moved)


async def test_a_removed_proxy_is_forgotten_with_its_password(plane: ControlPlane) -> None:
    (proxy_id,) = await plane.add_proxies(1)
    await plane.good("DELETE", f"/api/v1/proxies/{proxy_id}")
    client = plane.store.connection.client
    assert [key async for key in client.scan_iter(f"*{proxy_id}*")] == []
