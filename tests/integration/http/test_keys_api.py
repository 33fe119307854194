"""API keys: shown once, kept as a hash, limited, expiring, revoked at once; and who did what."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from support.control_plane import API_KEY, Answer, ControlPlane
from support.visitor import Visitor, cookie_of, sign_in
from support.waiting import wait_until
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.errors import KeyExpired, StoreUnavailable, Unauthorized
from wa_orchestrator.http.key_ring import KeyRing, digest_of
from wa_orchestrator.model.caller import FIRST_KEY, Right
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.api_keys import ApiKey

SEND = {"to": "972521111111", "text": "hello"}


async def make(plane: ControlPlane, name: str = "shop", **wanted: Any) -> dict[str, Any]:
    body = {"name": name, "rights": ["send"], **wanted}
    made: dict[str, Any] = await plane.good("POST", "/api/v1/keys", body, status=201)
    return made


async def sends(plane: ControlPlane, key: str, **more: Any) -> Answer:
    return await plane.call("POST", "/api/v1/send", {**SEND, **more}, key=key)


async def audit(plane: ControlPlane, **query: str) -> list[dict[str, Any]]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    return list((await plane.good("GET", f"/api/v1/audit?{asked}"))["lines"])


async def test_a_key_is_shown_once_and_kept_as_a_hash(plane: ControlPlane) -> None:
    made = await make(plane, rights=["send", "read"], sessions=["a", "b"], ratePerMinute=60, note="for the shop")
    key = made["key"]
    assert key.startswith("wak_")
    assert len(key) > 40
    assert (await sends(plane, key, sessionId="a")).status == 404  # the key is good, the session is not there
    for path in ("/api/v1/keys", f"/api/v1/keys/{made['id']}"):
        listed = (await plane.call("GET", path)).body
        assert key.encode() not in listed
        assert digest_of(key).encode() not in listed
    dump = json.dumps([await plane.store.connection.call("HGETALL", keys.API_KEYS())])
    assert key not in dump
    [shown] = (await plane.good("GET", "/api/v1/keys"))["keys"]
    assert (shown["rights"], shown["sessions"], shown["ratePerMinute"]) == (["read", "send"], ["a", "b"], 60)
    assert (shown["createdBy"], shown["shown"]) == ("api", key[:8])
    own = await plane.call("GET", "/api/v1/keys/self", key=key)
    assert (own.json["by"], own.json["sessions"]) == ("shop", ["a", "b"])


async def test_last_use_is_noted(plane: ControlPlane) -> None:
    made = await make(plane)
    assert made["lastUsedAt"] is None
    await sends(plane, made["key"])

    async def used() -> bool:
        return (await plane.good("GET", f"/api/v1/keys/{made['id']}"))["lastUsedAt"] is not None

    await wait_until(used)


async def test_a_revoked_disabled_or_rotated_key_ends_at_once(plane: ControlPlane) -> None:
    made = await make(plane)
    key, at = made["key"], f"/api/v1/keys/{made['id']}"
    assert (await sends(plane, key)).status == 202
    await plane.good("PATCH", at, {"disabled": True})
    off = await sends(plane, key)
    assert (off.status, off.code) == (401, "KEY_DISABLED")
    await plane.good("PATCH", at, {"disabled": False})
    assert (await sends(plane, key)).status == 202
    rotated = await plane.good("POST", f"{at}/rotate")
    assert (rotated["name"], rotated["id"]) == ("shop", made["id"])
    assert (await sends(plane, key)).status == 401
    assert (await sends(plane, rotated["key"])).status == 202
    await plane.good("DELETE", at)
    gone = await sends(plane, rotated["key"])
    assert (gone.status, gone.code) == (401, "UNAUTHORIZED")
    assert (await plane.call("DELETE", at)).code == "KEY_NOT_FOUND"
    await make(plane)  # its name is free again


async def test_a_key_that_has_expired_says_so(plane: ControlPlane) -> None:
    old = {"name": "old", "rights": ["read"], "expiresAt": "2020-01-01T00:00Z"}
    answer = await plane.call("POST", "/api/v1/keys", old)
    assert (answer.status, answer.field) == (422, "expiresAt")
    made = await make(plane, expiresAt="2090-01-01T00:00:00Z")
    assert made["expiresAt"].startswith("2090-01-01")
    assert not made["expired"]
    await plane.store.api_keys.change(made["id"], expires_at=1000)
    await asyncio.sleep(2.1)  # as long as a process may go by what it knows
    over = await sends(plane, made["key"])
    assert (over.status, over.code) == (401, "KEY_EXPIRED")


async def test_changes_touch_only_what_they_name(plane: ControlPlane) -> None:
    made = await make(plane, sessions=["a"], ratePerMinute=10, note="x")
    at = f"/api/v1/keys/{made['id']}"
    changed = await plane.good("PATCH", at, {"rights": ["admin"]})
    assert (changed["rights"], changed["sessions"], changed["ratePerMinute"]) == (["admin"], ["a"], 10)
    changed = await plane.good("PATCH", at, {"sessions": None, "ratePerMinute": None, "name": "shop2"})
    assert (changed["rights"], changed["sessions"], changed["ratePerMinute"]) == (["admin"], None, None)
    other = await make(plane, "shop")  # the old name is free
    taken = await plane.call("PATCH", f"/api/v1/keys/{other['id']}", {"name": "shop2"})
    assert (taken.status, taken.code) == (409, "KEY_NAME_TAKEN")


NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"name": "x"}, "rights"),
    ({"name": "x", "rights": []}, "rights"),
    ({"name": "x", "rights": ["root"]}, "rights.0"),
    ({"name": "api", "rights": ["read"]}, "name"),
    ({"name": "user:dana", "rights": ["read"]}, "name"),
    ({"name": "x", "rights": ["read"], "sessions": []}, "sessions"),
    ({"name": "x", "rights": ["read"], "ratePerMinute": 0}, "ratePerMinute"),
    ({"name": "x", "rights": ["read"], "more": 1}, "more"),
]


async def test_nonsense_is_refused_with_the_field(plane: ControlPlane) -> None:
    for body, field in NONSENSE:
        answer = await plane.call("POST", "/api/v1/keys", body)
        assert (answer.status, answer.field) == (422, field)
    assert (await plane.good("GET", "/api/v1/keys"))["keys"] == []


async def test_fifty_at_once_make_one_key_of_a_name(plane: ControlPlane) -> None:
    body = {"name": "shop", "rights": ["read"]}
    answers = await asyncio.gather(*(plane.call("POST", "/api/v1/keys", body) for _ in range(50)))
    assert sorted(a.status for a in answers) == [201] + [409] * 49
    assert len((await plane.good("GET", "/api/v1/keys"))["keys"]) == 1


# rates -----------------------------------------------------------------------------------------------------------
async def test_a_keys_own_rate_counts_messages_and_calls(plane: ControlPlane) -> None:
    made = await make(plane, rights=["send", "read"], ratePerMinute=1, rateBurst=5)
    key = made["key"]
    answers = await asyncio.gather(*(sends(plane, key) for _ in range(8)))
    assert sorted(a.status for a in answers) == [202] * 5 + [429] * 3
    late = next(a for a in answers if a.status == 429)
    assert late.json["error"]["details"]["of"] == "key"
    assert 1 <= int(late.headers["retry-after"]) <= 60
    assert (await plane.call("GET", "/api/sessions", key=key)).status == 429  # the same rate for other calls
    bulk = await plane.call("POST", "/api/v1/send/bulk", [SEND, SEND], key=key)
    assert [r["error"]["code"] for r in bulk.json["results"]] == ["TOO_MANY_REQUESTS"] * 2
    # others are not touched, and a refused message is nowhere
    assert (await sends(plane, API_KEY)).status == 202
    assert len((await plane.good("GET", "/api/v1/messages"))["messages"]) == 6


# streams ---------------------------------------------------------------------------------------------------------
async def test_a_revoked_key_ends_its_open_stream(plane: ControlPlane) -> None:
    made = await make(plane, rights=["read"])
    async with plane.http.get(f"{plane.url}/api/v1/events/stream", headers={"X-Api-Key": made["key"]}) as stream:
        assert stream.status == 200
        await plane.good("DELETE", f"/api/v1/keys/{made['id']}")

        async def ended() -> bool:
            await make(plane, f"k{asyncio.get_running_loop().time()}".replace(".", "-"))  # something to tell
            return stream.content.at_eof()

        async def drain() -> None:
            async for _ in stream.content:
                pass

        async with asyncio.timeout(30):
            draining = asyncio.create_task(drain())
            await wait_until(ended)
            await draining


# what is written down --------------------------------------------------------------------------------------------
async def test_every_change_and_every_refusal_is_in_the_audit_log(plane: ControlPlane) -> None:
    made = await make(plane, rights=["manage"])
    key = made["key"]
    await plane.call("PUT", "/api/anti-ban/limits", {"daily": 5}, key=key)
    await plane.call("POST", "/api/sessions/nobody/start", key=key)
    await plane.call("DELETE", f"/api/v1/keys/{made['id']}", key=key)  # not its right
    await plane.call("GET", "/api/sessions", key=key)  # changes nothing
    await plane.call("POST", "/api/v1/send", SEND, key=API_KEY)  # told by the message itself
    lines = [(line["by"], line["what"], line["on"], line["outcome"], line["code"]) for line in await audit(plane)]
    assert lines == [
        ("shop", "DELETE /keys/{key_id}", made["id"], "refused", "FORBIDDEN"),
        ("shop", "POST /sessions/{session_id}/start", "nobody", "refused", "SESSION_NOT_FOUND"),
        ("shop", "PUT /anti-ban/limits", None, "done", None),
        ("api", "POST /keys", "shop", "done", None),
    ]
    assert key.encode() not in (await plane.call("GET", "/api/v1/audit")).body
    assert [line["what"] for line in await audit(plane, by="api")] == ["POST /keys"]
    assert [line["on"] for line in await audit(plane, on="nobody")] == ["nobody"]
    assert len(await audit(plane, limit="1")) == 1


async def test_the_audit_log_is_paged_and_bounded_by_age(plane: ControlPlane) -> None:
    for _ in range(5):
        await plane.call("DELETE", "/api/anti-ban/limits")
    first = await plane.good("GET", "/api/v1/audit?limit=3")
    rest = await plane.good("GET", f"/api/v1/audit?limit=3&cursor={first['nextCursor']}")
    places = [line["place"] for line in first["lines"] + rest["lines"]]
    assert len(places) == 5
    assert places == sorted(places, reverse=True)
    assert rest["nextCursor"] is None
    newest = int(places[0].split("-")[0])
    assert await plane.store.audit.forget(before_ms=newest + 1) == 5
    assert await audit(plane) == []
    assert (await plane.call("GET", "/api/v1/audit?cursor=nonsense")).status == 422


async def test_people_are_named_by_their_name(plane: ControlPlane) -> None:
    visitor = Visitor(plane, cookie=cookie_of(await sign_in(plane, API_KEY)))
    found = re.search(r'name="csrf-token" content="([^"]+)"', await visitor.get("/"))
    assert found
    visitor.csrf = found[1]
    assert (await visitor.call("DELETE", "/api/anti-ban/limits")).status == 200
    told = [(line["by"], line["what"], line["outcome"]) for line in await audit(plane)]
    assert told == [("dashboard", "DELETE /anti-ban/limits", "done"), ("dashboard", "POST /sign-in", "done")]


# the ring alone --------------------------------------------------------------------------------------------------
@pytest.fixture
async def ring(valkey_store: Store, clock: ManualClock) -> KeyRing:
    return KeyRing(store=valkey_store, clock=clock, first_key="first")


def kept(name: str, secret: str, **more: Any) -> ApiKey:
    values: dict[str, Any] = {"key_id": f"key_{name}", "name": name, "digest": digest_of(secret), "shown": ""}
    return ApiKey(**{**values, "rights": frozenset({Right.READ}), **more})


async def test_the_first_key_needs_no_store(clock: ManualClock) -> None:
    away = Store("redis://127.0.0.1:1", clock)
    ring = KeyRing(store=away, clock=clock, first_key="first")
    assert await ring.caller("first") is FIRST_KEY
    with pytest.raises(StoreUnavailable):
        await ring.caller("another")
    await away.close()
    nobody = KeyRing(store=away, clock=clock, first_key="")
    with pytest.raises((Unauthorized, StoreUnavailable)):
        await nobody.caller("")


async def test_a_key_made_elsewhere_is_known_at_once_and_asked_for_once(
    ring: KeyRing, valkey_store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    read = valkey_store.api_keys.records

    async def counted() -> dict[str, str]:
        nonlocal reads
        reads += 1
        return await read()

    monkeypatch.setattr(valkey_store.api_keys, "records", counted)
    await valkey_store.api_keys.create(kept("a", "secret-a", expires_at=clock.now_ms() + 60_000))
    assert (await ring.caller("secret-a")).by == "a"
    for _ in range(1000):
        await ring.caller("secret-a")
    assert reads <= 3
    await asyncio.gather(*(_refused(ring, f"guess-{n}") for n in range(500)))
    assert reads <= 6, "guessing keys must not make us ask the store each time"
    clock.advance(seconds=61)
    with pytest.raises(KeyExpired):
        await ring.caller("secret-a")


async def _refused(ring: KeyRing, key: str) -> None:
    with pytest.raises(Unauthorized):
        await ring.caller(key)
