"""Webhooks over HTTP: made, shown without secrets, changed, tried, removed; refused where they lead inside."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.control_plane import ControlPlane, control_plane, proxy_url
from support.receiver import Receiver
from support.servers import StoreServer
from support.waiting import wait_until

UNKNOWN = "wh_0123456789abcdef"
PUBLIC = "http://93.184.216.34/hook"


@pytest.fixture
async def open_plane(valkey: StoreServer, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    """One that may post to this machine."""
    async with control_plane(tmp_path / "data", REDIS_URL=valkey.url, WEBHOOK_ALLOW_PRIVATE="127.0.0.0/8") as plane:
        await plane.store.connection.call("FLUSHALL")
        yield plane


async def make(plane: ControlPlane, **body: Any) -> Any:
    return await plane.good("POST", "/api/v1/webhooks", body, status=201)


async def test_a_webhook_from_its_making_to_its_end(open_plane: ControlPlane, receiver: Receiver) -> None:
    plane = open_plane
    made = await make(
        plane, url=receiver.url, label="mine", types=["proxy.*"], metadata={"a": "b"}, headers={"X-A": "v4lue"}
    )
    receiver.secret = made["secret"]
    assert made["secret"].startswith("whsec_")
    assert made["state"]["status"] == "active"
    shown = await plane.good("GET", f"/api/v1/webhooks/{made['id']}")
    assert shown == {key: value for key, value in made.items() if key != "secret"} | {"state": shown["state"]}
    assert (await plane.good("GET", "/api/webhooks"))["total"] == 1, "also without v1"

    tested = await plane.good("POST", f"/api/v1/webhooks/{made['id']}/test")
    assert (tested["delivered"], tested["status"], tested["error"]) == (True, 200, None)
    assert receiver.events[0]["type"] == "webhook.test"
    assert receiver.headers[0]["X-A"] == "v4lue"
    assert receiver.bad_signatures == 0

    changed = await plane.good("PATCH", f"/api/v1/webhooks/{made['id']}", {"metadata": {}, "label": "ours"})
    assert (changed["label"], changed["metadata"], changed["types"]) == ("ours", {}, ["proxy.*"])
    await plane.add_proxies(1)
    await wait_until(lambda: len(receiver.events) == 2)
    assert receiver.events[1]["type"] == "proxy.added"

    gone = await plane.good("DELETE", f"/api/v1/webhooks/{made['id']}")
    assert gone == {"id": made["id"], "deleted": True}
    answer = await plane.call("GET", f"/api/v1/webhooks/{made['id']}")
    assert (answer.status, answer.code) == (404, "WEBHOOK_NOT_FOUND")


async def test_secrets_are_in_no_answer(open_plane: ControlPlane, receiver: Receiver, capfd: Any) -> None:
    plane = open_plane
    secret = "my-own-s3cr3t-of-length"
    url = f"http://user:hunter2@127.0.0.1:{receiver.port}/hook?token=t0k3n"
    answer = await plane.call("POST", "/api/v1/webhooks", {"url": url, "headers": {"Authorization": "Bearer x"}})
    assert answer.field == "headers", "one of the two"
    made = await make(plane, url=url, secret=secret, headers={"X-Token": "b34r3r"})
    receiver.secret = secret
    assert made["secret"] is None, "who gave it knows it"
    assert made["urlHasSecrets"]
    assert made["headers"] == ["X-Token"]
    await plane.add_proxies(1)
    await wait_until(lambda: len(receiver.events) >= 1)
    assert receiver.headers[0]["X-Token"] == "b34r3r"
    assert receiver.headers[0]["Authorization"].startswith("Basic ")
    receiver.decide = lambda _event: 500
    await plane.good("POST", "/api/v1/proxies", {"proxy": proxy_url(7)}, status=201)
    await wait_until(lambda: len(receiver.tries) > 4)
    answers = [
        (await plane.call(method, path)).body.decode()
        for method, path in (
            ("GET", "/api/v1/webhooks"),
            ("GET", f"/api/v1/webhooks/{made['id']}"),
            ("POST", f"/api/v1/webhooks/{made['id']}/test"),
            ("GET", f"/api/v1/webhooks/{made['id']}/dead"),
            ("GET", "/api/v1/events?after=0"),
        )
    ]
    captured = capfd.readouterr()
    for text in (*answers, captured.out, captured.err):
        for hidden in ("hunter2", "t0k3n", "b34r3r", secret):
            assert hidden not in text


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({}, 422, "INVALID_BODY", "url"),
        ({"url": "ftp://host/"}, 400, "INVALID_WEBHOOK_URL", ""),
        ({"url": PUBLIC, "types": ["message.sentt"]}, 422, "INVALID_BODY", "types"),
        ({"url": PUBLIC, "secret": "short"}, 422, "INVALID_BODY", "secret"),
        ({"url": PUBLIC, "format": "xml"}, 422, "INVALID_BODY", "format"),
        ({"url": PUBLIC, "sessions": ["a b"]}, 400, "INVALID_SESSION_ID", ""),
        ({"url": PUBLIC, "headers": {"Host": "a"}}, 422, "INVALID_BODY", "headers"),
        ({"url": PUBLIC, "enabled": "yes"}, 422, "INVALID_BODY", "enabled"),
        ({"url": PUBLIC, "adress": "x"}, 422, "INVALID_BODY", "adress"),
        ({"url": PUBLIC, "after": -1}, 422, "INVALID_BODY", "after"),
        ({"url": "http://127.0.0.1:6379/"}, 400, "WEBHOOK_TARGET_REFUSED", ""),
        ({"url": "http://localhost/"}, 400, "WEBHOOK_TARGET_REFUSED", ""),
        ({"url": "http://169.254.169.254/latest/meta-data"}, 400, "WEBHOOK_TARGET_REFUSED", ""),
        ({"url": "http://[::ffff:127.0.0.1]/"}, 400, "WEBHOOK_TARGET_REFUSED", ""),
        ({"url": "http://2130706433/"}, 400, "WEBHOOK_TARGET_REFUSED", ""),
        ({"url": "http://0x7f.1/"}, 400, "WEBHOOK_TARGET_REFUSED", ""),
    ],
)
async def test_bad_ones_are_refused_and_nothing_is_kept(
    plane: ControlPlane, body: dict[str, Any], status: int, code: str, field: str
) -> None:
    answer = await plane.call("POST", "/api/v1/webhooks", body)
    assert (answer.status, answer.code) == (status, code), answer.body
    if field:
        assert answer.field == field
    assert (await plane.good("GET", "/api/v1/webhooks"))["total"] == 0


async def test_unknown_ones_are_404_everywhere(plane: ControlPlane) -> None:
    for method, path, body in (
        ("GET", "", None), ("PATCH", "", {"label": "x"}), ("DELETE", "", None), ("POST", "/test", None),
        ("GET", "/dead", None), ("POST", "/redrive", {}), ("POST", "/dead/drop", {}),
    ):  # fmt: skip
        answer = await plane.call(method, f"/api/v1/webhooks/{UNKNOWN}{path}", body)
        assert (answer.status, answer.code) == (404, "WEBHOOK_NOT_FOUND"), path


async def test_a_change_to_a_private_address_is_refused_and_changes_nothing(plane: ControlPlane) -> None:
    made = await make(plane, url=PUBLIC, enabled=False)
    answer = await plane.call("PATCH", f"/api/v1/webhooks/{made['id']}", {"url": "http://127.0.0.1/", "label": "x"})
    assert answer.code == "WEBHOOK_TARGET_REFUSED"
    answer = await plane.call("PATCH", f"/api/v1/webhooks/{made['id']}", {"url": None})
    assert (answer.status, answer.field) == (422, "url")
    shown = await plane.good("GET", f"/api/v1/webhooks/{made['id']}")
    assert (shown["url"], shown["label"]) == (PUBLIC, None)


async def test_a_name_that_changes_its_mind_does_not_get_through(
    plane: ControlPlane, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, asked = socket.getaddrinfo, []

    def rebinding(host: Any, port: Any, *more: Any, **named: Any) -> Any:
        if host != "rebind.example":
            return real(host, port, *more, **named)
        asked.append(host)
        address = "93.184.216.34" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    made = await make(plane, url=f"http://rebind.example:{receiver.port}/hook")
    assert len(asked) == 1
    tested = await plane.good("POST", f"/api/v1/webhooks/{made['id']}/test")
    assert len(asked) > 1, "it was asked again, and answered otherwise"
    assert (tested["delivered"], tested["error"]) == (False, "private address, refused")
    assert receiver.tries == []


async def test_an_address_in_numbers_is_looked_at_when_connecting_too(plane: ControlPlane, receiver: Receiver) -> None:
    made = await make(plane, url=PUBLIC, enabled=False)
    # as if it had been allowed when it was made
    await plane.store.webhooks.change(made["id"], {"url": receiver.url})
    tested = await plane.good("POST", f"/api/v1/webhooks/{made['id']}/test")
    assert tested["error"] == "private address, refused"
    assert receiver.tries == []


async def test_a_limited_key_has_webhooks_for_its_own_sessions_only(plane: ControlPlane) -> None:
    key = (
        await plane.good("POST", "/api/v1/keys", {"name": "a", "rights": ["manage"], "sessions": ["a"]}, status=201)
    )["key"]
    whole = await make(plane, url=PUBLIC)
    refused = [
        await plane.call("POST", "/api/v1/webhooks", {"url": PUBLIC}, key=key),
        await plane.call("POST", "/api/v1/webhooks", {"url": PUBLIC, "sessions": ["a", "b"]}, key=key),
        await plane.call("GET", f"/api/v1/webhooks/{whole['id']}", key=key),
        await plane.call("DELETE", f"/api/v1/webhooks/{whole['id']}", key=key),
    ]
    assert [answer.status for answer in refused] == [403] * 4
    answer = await plane.call("POST", "/api/v1/webhooks", {"url": PUBLIC, "sessions": ["a"]}, key=key)
    assert answer.status == 201
    listed = (await plane.call("GET", "/api/v1/webhooks", key=key)).json["webhooks"]
    assert [one["id"] for one in listed] == [answer.json["id"]]
    widened = await plane.call("PATCH", f"/api/v1/webhooks/{answer.json['id']}", {"sessions": []}, key=key)
    assert widened.status == 403
