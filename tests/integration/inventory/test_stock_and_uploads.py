"""The stock over HTTP: uploads, counts, taking from it, and what is noted when it runs low."""

from __future__ import annotations

import asyncio
import io
from typing import Any

from support.control_plane import ControlPlane
from support.registry import add_proxies, address, reserve
from wa_orchestrator.errors import NoProxyAvailable
from wa_orchestrator.inventory.profiles import Profile
from wa_orchestrator.inventory.watch import Inventory, InventoryWatch
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import Store


async def upload(plane: ControlPlane, what: str, text: str, prefix: str = "") -> dict[str, Any]:
    answer = await plane.call("POST", f"{prefix}/upload/{what}", raw=text.encode())
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


async def test_proxies_are_uploaded_as_lines(plane: ControlPlane) -> None:
    text = "# ours\nsocks5h://user:hunter2@one.example:1080\n\ntwo.example:1080:user:hunter2\nhttp://user:hunter2@x:1\n"
    first = await upload(plane, "proxies", text)
    assert (first["status"], first["added"], first["skipped"]) == ("ok", 2, [])
    assert [error["line"] for error in first["errors"]] == [5]
    assert "hunter2" not in str(first)
    again = await upload(plane, "proxies", text)
    assert (again["added"], again["skipped"]) == (0, [{"line": 2, "reason": "known"}, {"line": 4, "reason": "known"}])
    assert (await plane.good("GET", "/api/v1/proxies"))["total"] == 2
    for prefix in ("/api", "/api/v1"):
        assert await upload(plane, "proxies", text, prefix) == again
        assert (await upload(plane, "profiles", "# none", prefix))["added"] == 0


async def test_profiles_are_uploaded_as_lines(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    await plane.provision(phone="972500000009")
    text = (
        "972500000001,First\n972500000002,,socks5h://user:hunter2@own.example:1080\n# later\n"
        "972500000001,Again\nnobody\n972500000009,Has a session\n"
    )
    found = await upload(plane, "profiles", text)
    assert (found["status"], found["added"]) == ("ok", 2)
    assert found["skipped"] == [{"line": 4, "reason": "repeated"}, {"line": 6, "reason": "in_use"}]
    assert [error["line"] for error in found["errors"]] == [5]
    assert (await upload(plane, "profiles", text))["added"] == 0
    listed = await plane.good("GET", "/api/v1/profiles")
    assert [(p["phone"], p["label"], bool(p["proxy"])) for p in listed["profiles"]] == [
        ("972500000001", "First", False), ("972500000002", None, True),
    ]  # fmt: skip
    assert "hunter2" not in str(listed)
    assert (await plane.good("GET", "/api/v1/proxies"))["total"] == 2, "its proxy is in the pool"


async def test_an_upload_is_bounded_and_needs_a_key(plane: ControlPlane) -> None:
    large = await plane.call("POST", "/upload/profiles", raw=io.BytesIO(b"#" * 2_000_000))
    assert (large.status, large.code) == (413, "TOO_LARGE")
    assert (await plane.call("POST", "/upload/proxies", raw=b"x", key=None)).status == 401
    assert (await plane.call("POST", "/upload/profiles", raw=b"\xff\xfe")).code == "BAD_REQUEST"


async def test_provisioning_takes_the_oldest_profile(plane: ControlPlane) -> None:
    await plane.add_proxies(2)
    await upload(plane, "profiles", "972500000002,Second name\n972500000001\n")
    made = await plane.provision(fromProfile=True)
    session = await plane.good("GET", f"/api/sessions/{made}")
    assert (session["phone"], session["label"]) == ("972500000002", "Second name")
    assert (await plane.good("GET", "/api/v1/inventory"))["profiles"] == 1
    await plane.provision(fromProfile=True)
    empty = await plane.call("POST", "/api/sessions/provision", {"fromProfile": True})
    assert (empty.status, empty.code) == (409, "NO_PROFILE_LEFT")
    both = await plane.call("POST", "/api/sessions/provision", {"fromProfile": True, "phone": "972500000003"})
    assert (both.status, both.code) == (422, "INVALID_BODY")


async def test_many_at_once_never_take_the_same_profile(plane: ControlPlane) -> None:
    await plane.add_proxies(3)
    phones = [f"97250000{n:04}" for n in range(8)]
    await upload(plane, "profiles", "\n".join(phones))
    made = await asyncio.gather(*(plane.provision(fromProfile=True) for _ in phones))
    sessions = [await plane.good("GET", f"/api/sessions/{name}") for name in made]
    assert sorted(session["phone"] for session in sessions) == phones
    assert (await plane.good("GET", "/api/v1/profiles"))["total"] == 0


async def test_a_profile_stays_in_stock_when_its_session_cannot_be_made(plane: ControlPlane) -> None:
    await upload(plane, "profiles", "972500000001\n")
    refused = await plane.call("POST", "/api/sessions/provision", {"fromProfile": True})
    assert (refused.status, refused.code) == (503, NoProxyAvailable.code)
    assert (await plane.good("GET", "/api/v1/profiles"))["total"] == 1


async def test_a_profile_whose_own_proxy_is_bad_does_not_hold_up_the_others(plane: ControlPlane) -> None:
    await upload(plane, "profiles", "972500000001,,user:pass@127.0.0.1:1\n972500000002,,user:pass@127.0.0.1:2\n")
    first = (await plane.good("GET", "/api/v1/profiles"))["profiles"][0]["proxy"]
    await plane.store.proxies.mark(first, ProxyStatus.BAD, error="x", kind="refused")
    made = await plane.provision(fromProfile=True)
    assert (await plane.good("GET", f"/api/sessions/{made}"))["phone"] == "972500000002"
    assert (await plane.call("POST", "/api/sessions/provision", {"fromProfile": True})).code == "PROXY_BAD"


async def test_profiles_are_removed_by_their_phone(plane: ControlPlane) -> None:
    await upload(plane, "profiles", "972500000001\n")
    assert await plane.good("DELETE", "/api/v1/profiles/+972500000001") == {"phone": "972500000001", "removed": True}
    assert (await plane.call("DELETE", "/api/v1/profiles/972500000001")).code == "PROFILE_NOT_FOUND"
    assert (await plane.call("DELETE", "/api/v1/profiles/nobody")).code == "INVALID_PHONE"


async def test_the_inventory_in_numbers(plane: ControlPlane) -> None:
    await plane.add_proxies(2)
    session_id = await plane.provision(phone="972500000001")
    await plane.event(session_id, "CONNECTED", {"phoneNumber": "972500000001"})
    found = await plane.good("GET", "/api/v1/inventory")
    assert found == {
        "freeSlots": 7, "healthyProxies": 2, "connectedSessions": 1, "profiles": 0, "low": [],
        "thresholds": {"freeSlots": 2, "healthyProxies": 1, "connectedSessions": 0, "profiles": 0},
    }  # fmt: skip
    assert found == await plane.good("GET", "/api/inventory")


async def test_low_and_enough_are_noted_once_however_many_look(store: Store) -> None:
    settings = load_settings({"LOW_FREE_SLOTS": "4", "LOW_PROFILES": "1"})
    watches = [InventoryWatch(Inventory(store=store, settings=settings), store) for _ in range(2)]

    async def look() -> None:
        for watch in (*watches, *watches):
            await watch.run_once()

    async def noted() -> list[tuple[str, str, int]]:
        entries = await store.journal.after(0, limit=1000)
        return [(e.type, e.data["stock"], e.data["count"]) for e in entries if e.type.startswith("inventory.")]

    await look()
    assert await noted() == [], "nothing is set up yet"
    await add_proxies(store, 1)
    await reserve(store)
    await look()
    assert await noted() == [("inventory.low", "freeSlots", 3), ("inventory.low", "profiles", 0)]
    await store.proxies.add(address(9))
    await store.inventory.add_profile("972500000001", label="", address=None)
    await look()
    assert (await noted())[2:] == [("inventory.enough", "freeSlots", 7), ("inventory.enough", "profiles", 1)]


async def test_a_profile_is_added_once_with_its_proxy(store: Store) -> None:
    profile = Profile(phone="972500000001", proxy=address(1))
    for expected in ("", "known"):
        added = await store.inventory.add_profile(profile.phone, label="x", address=profile.proxy)
        assert added == expected
    (proxy,) = await store.proxies.all()
    assert proxy.address == address(1)
    assert [e.type for e in await store.journal.after(0, limit=10)] == ["proxy.added"]
