"""STOP and הסר from a simulated phone, through a real worker: refused from then on, cancelled what waited."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from support.system import Refused, System, wait_for

REPLY = "הוסרת מרשימת התפוצה."
SHOP, BRANCH = "972540000001", "972540000002"
STILL = {"daily": None, "perMinute": None, "minDelayMs": 600_000, "maxDelayMs": 600_000, "hours": None, "burst": None}


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("opt-outs"), OPT_OUT_REPLY=REPLY) as running:
        yield running


@pytest.fixture(scope="module")
def sessions(system: System) -> tuple[str, str]:
    """Two numbers of one company, as quick as can be."""
    found = system.connected(SHOP), system.connected(BRANCH)
    for session_id in found:
        system.unpaced(session_id)
    return found


def texts(system: System, phone: str) -> list[str]:
    return [message["text"] for message in system.inbox(phone)]


def status(system: System, message_id: str) -> tuple[str, str | None]:
    found = system.api.get(f"/api/v1/messages/{message_id}")
    return found["status"], found["reason"]


@pytest.mark.parametrize(("word", "customer"), [("STOP", "972550000101"), ("הסר", "972550000102")])
def test_a_word_stops_everything_from_every_session(
    system: System, sessions: tuple[str, str], word: str, customer: str
) -> None:
    shop, branch = sessions
    system.simulator.post("/phones", {"phone": customer})
    first = system.api.post("/api/v1/send", {"to": customer, "message": "offer", "sessionId": shop})
    wait_for(lambda: texts(system, customer) == ["offer"], what="the offer")
    # the branch's next ones wait: its pace is one in ten minutes
    system.api.call("PUT", f"/api/anti-ban/sessions/{branch}/limits", STILL)
    waiting = [
        system.api.post("/api/v1/send", {"to": customer, "message": f"more {n}", "sessionId": branch, "defer": True})
        for n in range(3)
    ]
    in_a_week = int(time.time() * 1000) + 7 * 86_400_000
    planned = system.api.post("/api/v1/send", {"to": customer, "message": "later", "scheduleAt": in_a_week})
    released = sum(1 for one in waiting if status(system, one["messageId"])[0] in {"outbox", "claimed", "sent"})
    assert released <= 1, "the pace lets one go at most"

    system.simulator.post(f"/phones/{customer}/send", {"to": SHOP, "text": f"{word}!"})
    entry = wait_for(lambda: _entry(system, customer), what="the number on the list")
    assert (entry["source"], entry["by"]) == ("word", shop)

    for body in ({"sessionId": shop}, {"sessionId": branch}, {"phone": SHOP}, {}):
        with pytest.raises(Refused) as refused:
            system.api.post("/api/v1/send", {"to": customer, "message": "again", **body})
        assert (refused.value.status, refused.value.code) == (403, "RECIPIENT_OPTED_OUT")
    ends = [status(system, one["messageId"]) for one in (*waiting, planned)]
    assert ends[-1] == ("cancelled", "RECIPIENT_OPTED_OUT")
    assert ends.count(("cancelled", "RECIPIENT_OPTED_OUT")) >= 3
    assert status(system, first["messageId"])[0] in {"sent", "delivered", "read"}

    # the answer, once, by the session that heard the word
    wait_for(lambda: REPLY in texts(system, customer), what="the answer")
    system.simulator.post(f"/phones/{customer}/send", {"to": SHOP, "text": word})
    wait_for(lambda: len(system.events(shop, "MESSAGE_RECEIVED")) >= 2 or None, what="the second word")
    assert texts(system, customer).count(REPLY) == 1
    assert "again" not in texts(system, customer)
    told = system.events(shop, "recipient.opted_out")
    assert [event["data"]["phone"] for event in told].count(customer) == 1
    system.unpaced(branch)


def test_an_opt_in_lifts_it_and_the_recipient_is_explained(system: System, sessions: tuple[str, str]) -> None:
    shop, _ = sessions
    customer = "972550000103"
    system.simulator.post("/phones", {"phone": customer})
    system.simulator.post(f"/phones/{customer}/send", {"to": SHOP, "text": "stop"})
    wait_for(lambda: _entry(system, customer), what="the number on the list")
    explained = system.api.get(f"/api/v1/recipients/{customer}")
    assert not explained["maySend"]
    assert [reason["code"] for reason in explained["reasons"]] == ["RECIPIENT_OPTED_OUT"]
    assert explained["lastContact"]["sessionId"] == shop
    wait_for(lambda: REPLY in texts(system, customer), what="the answer")
    system.simulator.post(f"/phones/{customer}/send", {"to": SHOP, "text": "Start"})
    wait_for(lambda: _entry(system, customer) is None or None, what="the number off the list")
    assert system.api.get(f"/api/v1/recipients/{customer}")["maySend"]
    system.api.post("/api/v1/send", {"to": customer, "message": "welcome back", "sessionId": shop})
    wait_for(lambda: "welcome back" in texts(system, customer) or None, what="the message")


def _entry(system: System, phone: str) -> dict[str, str] | None:
    found = system.api.get("/api/v1/suppression")["suppressed"]
    return next((entry for entry in found if entry["phone"] == phone), None)
