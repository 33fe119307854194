"""Why is it still waiting? The strongest reason, in words, with the time it ends."""

from __future__ import annotations

from typing import Any

import pytest

from wa_orchestrator.clock import iso
from wa_orchestrator.gateway.story import full_story, message_view, waiting_for

NOW = 1_780_000_000_000
LATER, LATEST = NOW + 60_000, NOW + 3_600_000


def message(**wanted: str) -> dict[str, str]:
    values = {"id": "msg_1", "wa": "3EB01", "to": "1@s.whatsapp.net", "state": "queued", "lane": "1", "session": "a",
              "content": '{"kind":"text","text":"secret"}', "acceptedAt": str(NOW)}  # fmt: skip
    return {**values, **wanted}


@pytest.mark.parametrize(
    ("record", "lane", "session", "code", "until"),
    [
        ({"state": "accepted", "scheduleAt": str(LATER)}, {}, "connected", "SCHEDULED", LATER),
        ({"state": "accepted", "waitingFor": "NO_SESSION_CONNECTED"}, {}, "", "NO_SESSION_CONNECTED", None),
        ({"state": "accepted"}, {}, "", "ROUTING", None),
        ({}, {}, "reconnecting", "SESSION_NOT_CONNECTED", None),
        ({"state": "outbox"}, {}, "connected", "WITH_WORKER", None),
        ({"state": "claimed"}, {"opensAt": str(LATER)}, "connected", "WITH_WORKER", None),
        ({}, {"blockedUntil": str(LATER), "blockReason": "RATE_LIMITED"}, "connected", "WHATSAPP_LIMIT", LATER),
        ({}, {"opensAt": str(LATER)}, "connected", "OUT_OF_HOURS", LATER),
        ({}, {"daily": "2", "dayCount": "2", "dayEndsAt": str(LATER), "nextOpensAt": str(LATEST)}, "connected",
         "DAILY_LIMIT", LATEST),
        ({}, {"daily": "2", "dayCount": "1", "dayEndsAt": str(LATER)}, "connected", "PACING", NOW),
        ({}, {"pausedUntil": str(LATER)}, "connected", "BURST_PAUSE", LATER),
        ({}, {"slow": "4", "nextDue": str(LATER)}, "connected", "SLOWED_DOWN", LATER),
        ({}, {"nextDue": str(LATER)}, "connected", "PACING", LATER),
        ({}, {}, "connected", "PACING", NOW),
    ],
)  # fmt: skip
def test_the_reason_it_waits_and_until_when(
    record: dict[str, str], lane: dict[str, str], session: str, code: str, until: int | None
) -> None:
    found = waiting_for(message(**record), lane, now_ms=NOW, session=session)
    assert found is not None
    assert (found["code"], found["until"]) == (code, iso(until))
    assert found["message"].endswith(".")


@pytest.mark.parametrize(
    ("session", "advice"),
    [
        ("stopped", "Start the session"),
        ("failed", "then start it"),
        ("logged_out", "scan its new code"),
        ("pending", "Scan its code"),
        ("qr_ready", "Scan its code"),
        ("disconnected", "by itself"),
        ("reconnecting", "once connected"),
        ("unhealthy", "once connected"),
    ],
)
def test_when_its_session_is_away_it_says_what_to_do_and_promises_no_time(session: str, advice: str) -> None:
    found = waiting_for(message(), {"nextDue": str(LATER), "opensAt": str(LATEST)}, now_ms=NOW, session=session)
    assert found is not None
    assert (found["code"], found["until"]) == ("SESSION_NOT_CONNECTED", None)
    assert advice in found["message"]


def test_a_message_of_a_session_that_was_never_linked_asks_for_the_scan() -> None:
    record = message(state="accepted", waitingFor="SESSION_NOT_LINKED")
    found = waiting_for(record, {}, now_ms=NOW, session="")
    assert found is not None
    assert "Scan its code" in found["message"]


@pytest.mark.parametrize("state", ["sent", "delivered", "read", "played", "failed", "expired", "cancelled"])
def test_an_ended_message_waits_for_nothing(state: str) -> None:
    assert waiting_for(message(state=state), {}, now_ms=NOW, session="connected") is None


def test_the_story_tells_each_step_in_order_with_its_reason() -> None:
    record = message(state="failed", queuedAt=str(NOW + 1), failedAt=str(NOW + 9), reason="WA_REJECTED: no",
                     story=f'{{"at":{NOW + 5},"what":"not_sent","reason":"WA_REJECTED: no"}}\n')  # fmt: skip
    told = full_story(record, {}, now_ms=NOW, session="connected")
    steps: list[dict[str, Any]] = told["story"]
    assert [step["what"] for step in steps] == ["accepted", "queued", "not_sent", "failed"]
    assert [step["reason"] for step in steps] == [None, None, "WA_REJECTED: no", "WA_REJECTED: no"]
    assert told["waitingFor"] is None
    assert told["content"] == {"kind": "text", "text": "secret"}


def test_a_list_does_not_show_what_a_message_says() -> None:
    view = message_view(message())
    assert "secret" not in str(view)
    assert (view["kind"], view["sessionId"], view["phone"]) == ("text", "a", "1")
