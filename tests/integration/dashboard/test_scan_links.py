"""A scan link opens one session's code for as long as it lasts, and nothing else."""

from __future__ import annotations

from support.control_plane import ControlPlane
from support.visitor import Visitor


async def link_for(visitor: Visitor, session: str) -> str:
    answer = await visitor.call("POST", f"/sessions/{session}/scan-link")
    assert answer.status == 200, answer.body
    return str(answer.json["path"])


async def ready_session(plane: ControlPlane, **wanted: str) -> str:
    session = await plane.provision(**wanted)
    await plane.event(session, "QR_CODE", {"qr": f"code-of-{session}"})
    return session


async def test_a_link_shows_its_sessions_code_without_a_sign_in(visitor: Visitor, plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    link = await link_for(visitor, await ready_session(plane))
    assert (await plane.call("GET", link, key=None)).status == 200
    state = (await plane.call("GET", f"{link}/state", key=None)).json
    assert state["step"] == "scan"
    assert set(state) == {"step", "status", "statusText", "reasonText", "code", "expiresAt", "phone", "now"}
    picture = await plane.call("GET", f"{link}/qr.svg", key=None)
    assert picture.headers["content-type"] == "image/svg+xml"
    page = (await plane.call("GET", link, key=None)).body.decode()
    assert "127.0.0.1" not in page, "the owner is not told the proxy"
    assert "csrf-token" not in page


async def test_a_link_is_for_one_session_and_not_a_cookie(visitor: Visitor, plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    mine, other = await ready_session(plane), await ready_session(plane)
    link, foreign = await link_for(visitor, mine), await link_for(visitor, other)
    own_code = (await plane.call("GET", f"{link}/state", key=None)).json["code"]
    assert own_code != (await plane.call("GET", f"{foreign}/state", key=None)).json["code"]
    token = link.removeprefix("/scan/")
    for path in ("/", "/api/sessions", f"/api/sessions/{mine}", f"/parts/scan/{mine}"):
        answer = await plane.call("GET", path, key=None, headers={"Cookie": f"wa_sign_in={token}"})
        assert answer.status in {307, 401}, path
    assert (await plane.call("GET", f"/scan/{visitor.cookie}", key=None)).status == 404, "nor a cookie a link"


async def test_a_link_ends_with_its_time_and_its_session(visitor: Visitor, plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await ready_session(plane, sessionId="shop")
    link = await link_for(visitor, session)
    for changed in (link + "x", link[:-1], "/scan/x", "/scan/x.y"):
        assert (await plane.call("GET", changed, key=None)).status == 404
    await plane.good("DELETE", f"/api/sessions/{session}")
    assert (await plane.call("GET", link, key=None)).status == 404
    await ready_session(plane, sessionId="shop")
    for path in (link, f"{link}/state", f"{link}/qr.svg", f"{link}/stream"):
        assert (await plane.call("GET", path, key=None)).status == 404, "a later session of that name is another one"


async def test_after_connecting_the_link_shows_no_code(visitor: Visitor, plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await ready_session(plane)
    link = await link_for(visitor, session)
    await plane.event(session, "CONNECTED", {"phoneNumber": "972501234567", "jid": "972501234567@s.whatsapp.net"})
    state = (await plane.call("GET", f"{link}/state", key=None)).json
    assert (state["step"], state["code"], state["phone"]) == ("connected", None, "+972 50-123-4567")
    assert (await plane.call("GET", f"{link}/qr.svg", key=None)).status == 404


async def test_only_who_is_signed_in_makes_links(visitor: Visitor, plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session = await ready_session(plane)
    assert (await plane.call("POST", f"/sessions/{session}/scan-link", key=None)).status == 401
    assert (await visitor.call("POST", f"/sessions/{session}/scan-link", csrf="")).status == 403
    assert (await visitor.call("POST", "/sessions/nobody/scan-link")).status == 404


async def test_pairing_codes_by_link_are_bounded(visitor: Visitor, plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    link = await link_for(visitor, await ready_session(plane))
    statuses = [(await plane.call("POST", f"{link}/pairing-code", {"phone": "12"}, key=None)).status for _ in range(8)]
    assert statuses == [400] * 6 + [429] * 2


async def test_the_links_secret_is_not_logged(visitor: Visitor, plane: ControlPlane) -> None:
    from wa_orchestrator.http.gate import _without_secret

    assert _without_secret("/scan/abc.def/state") == "/scan/…"
    assert _without_secret("/scan") == "/scan"
