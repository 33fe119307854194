"""The no-leak proof: a worker does all its work, and no packet goes anywhere but to its proxy and the control plane."""

from __future__ import annotations

import base64
import hashlib
import os
import signal
import time
from typing import Any

import pytest

from support.noleak import PICTURE, PICTURE_HOST, Place
from support.system import wait_for

pytestmark = pytest.mark.netns


def test_all_work_of_a_worker_touches_only_its_proxy_and_the_control_plane(
    place: Place, phone: str, other_phone: str
) -> None:
    system = place.system

    # linking
    session_id = system.connected(phone)
    system.unpaced(session_id)
    assert place.network.holds(system.worker_pid(session_id)), "the worker is not in its namespace: nothing is proved"

    # logging in again
    system.api.post(f"/api/sessions/{session_id}/restart")
    system.wait_status(session_id, "connected")
    before = system.worker_pid(session_id)
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: _pid(place, session_id) not in {None, before}, what="a new worker")
    system.wait_status(session_id, "connected")
    assert len(system.events(session_id, "QR_CODE")) == 1, "no second scan"
    assert place.network.holds(system.worker_pid(session_id))

    # sending
    in_line = base64.b64encode(PICTURE).decode()
    for message in (
        "שלום, hello 👋 https://example.com/a-link-that-asks-for-a-preview",
        {"image": {"base64": in_line, "caption": "in the message"}},
        {"image": {"url": f"http://{PICTURE_HOST}:{place.picture_port}/picture.png", "caption": "by address"}},
    ):
        _send_and_wait(place, session_id, to=other_phone, message=message)
    by_caption = {entry.get("caption"): entry for entry in system.inbox(other_phone)}
    for caption in ("in the message", "by address"):
        assert by_caption[caption]["media"]["sha256"] == hashlib.sha256(PICTURE).hexdigest()
    asked = {(request["host"], request["atyp"]) for request in place.asked_of_proxy()}
    assert (PICTURE_HOST, "domain") in asked, "the proxy was asked for the picture's host by name"
    assert ("localhost", "domain") in asked, "and so for WhatsApp's"

    # receiving
    system.simulator.post(f"/phones/{other_phone}/send", {"to": phone, "text": "hello there"})
    picture = {"base64": in_line, "mimetype": "image/png"}
    system.simulator.post(f"/phones/{other_phone}/send", {"to": phone, "image": picture, "caption": "look"})
    received = wait_for(lambda: _received(place, session_id, 2), what="both messages")
    assert {event["data"]["kind"] for event in received} == {"text", "image"}
    (fetched,) = wait_for(lambda: system.events(session_id, "MEDIA_READY"), what="the picture itself")
    assert fetched["data"]["sha256"] == hashlib.sha256(PICTURE).hexdigest()

    # what it does by itself
    shown = system.simulator.get("/stats")["presence"]["available"]
    wait_for(lambda: system.simulator.get("/stats")["presence"]["available"] > shown + 2, what="presence again")
    wait_for(lambda: any(e.get("fromMe") for e in system.inbox(phone)), what="a message to itself")
    ping = system.session(session_id)["lastPing"]
    wait_for(lambda: system.session(session_id)["lastPing"] != ping, what="another PING")

    # leaving
    system.api.post(f"/api/sessions/{session_id}/logout")
    system.wait_status(session_id, "logged_out")
    system.api.call("DELETE", f"/api/sessions/{session_id}?forget=true")

    assert_no_leak(place, at_least=200)


def test_a_worker_whose_proxy_is_down_tries_nothing_else_and_comes_back(place: Place, session: str) -> None:
    system = place.system

    system.fault(proxyDown=place.proxy_port)
    (told,) = wait_for(lambda: system.events(session, "PROXY_ERROR"), what="PROXY_ERROR")
    assert told["data"]["kind"] == "refused"
    # PROXY_ERROR is said first, until we have looked at the proxy ourselves
    wait_for(lambda: system.session(session)["reason"] == "NO_PROXY_AVAILABLE", what="the session to wait for a proxy")
    waiting = system.session(session)
    assert waiting["status"] == "disconnected"
    assert_no_leak(place)

    system.fault(proxyUp=place.proxy_port)
    system.api.post(f"/api/v1/proxies/{waiting['proxy']['id']}/check")
    system.wait_status(session, "connected")
    assert len(system.events(session, "QR_CODE")) == 1
    assert_no_leak(place)


@pytest.mark.parametrize("mode", ["down", "hang", "auth", "drop"])
def test_a_worker_left_alone_with_a_failing_proxy_tries_nothing_else(place: Place, session: str, mode: str) -> None:
    """Without the control plane nobody stops it: it goes on trying for seconds, and only there."""
    system = place.system
    worker = system.worker_pid(session)
    system.kill()
    port = place.proxy_port
    system.fault(**({"proxyDown": port} if mode == "down" else {"proxyFault": {"port": port, "mode": mode}}))
    before = place.packets.seen()
    time.sleep(4)  # several rounds of its reconnect pause of at most one second
    tried = place.packets.seen() - before
    addresses = {packet.address for packet in tried}
    assert addresses == {place.network.proxy_address, place.network.control_address}, "it tried both, again and again"
    assert_no_leak(place)

    system.fault(clear=True)
    system.start()
    assert system.worker_pid(session) == worker, "the same worker all the time"
    wait_for(lambda: system.events(session, "PROXY_ERROR"), what="PROXY_ERROR, kept until somebody listened")
    system.wait_status(session, "connected")
    assert_no_leak(place)


def assert_no_leak(place: Place, *, at_least: int = 1) -> None:
    others = place.packets.others()
    assert not others, "packets left for other places:\n" + "\n".join(f"{n} × {p}" for p, n in others.items())
    # the kernel's own count of the same: nothing was overlooked
    assert {name: place.network.sent_by(name) for name in ("world0", "lo")} == {"world0": 0, "lo": 0}
    allowed = place.packets.allowed()
    assert allowed >= at_least, "the worker's packets were not seen at all: nothing is proved"


def _pid(place: Place, session_id: str) -> int | None:
    try:
        return place.system.worker_pid(session_id)
    except (OSError, IndexError):  # between two workers
        return None


def _send_and_wait(place: Place, session_id: str, *, to: str, message: object) -> None:
    answer = place.system.api.post("/api/v1/send", {"to": to, "message": message, "sessionId": session_id})

    def delivered() -> bool:
        found: dict[str, Any] = place.system.api.get(f"/api/v1/messages/{answer['messageId']}")
        assert found["status"] != "failed", found["reason"]
        return found["status"] in {"delivered", "read"}

    wait_for(delivered, what=f"delivery of {message!r:.60}")


def _received(place: Place, session_id: str, count: int) -> list[dict[str, Any]]:
    found = place.system.events(session_id, "MESSAGE_RECEIVED")
    return found if len(found) == count else []
