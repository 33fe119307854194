"""The table of moves: no event, however late or often repeated, moves a session backwards."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from wa_orchestrator.errors import InvalidSessionId
from wa_orchestrator.model.session import MOVES, Status, checked_session_id, states_that_may_become
from wa_orchestrator.worker_api.projector import EVENT_TYPES, WorkerEvent, meaning_of

NOW = 1_700_000_000_000
ENDED = (Status.LOGGED_OUT, Status.FAILED, Status.STOPPED)
BEFORE_THE_SCAN = (Status.PENDING, Status.QR_READY)
# each event type in every form that leads to another state
FORMS: dict[str, list[dict[str, Any]]] = {
    "QR_CODE": [{"qr": "2@abc"}],
    "QR_UPDATE": [{"qrCode": "2@abc"}],
    "PAIRING_CODE": [{"code": "ABCD1234"}],
    "CONNECTED": [{"phoneNumber": "972501234567"}],
    "DISCONNECTED": [
        {"reason": "connection_lost", "code": 408},
        {"reason": "qr_expired", "code": 408},
        {"reason": "logged_out", "code": 401, "isLoggedOut": True},
        {"reason": "replaced", "code": 440},
        {"reason": "proxy_error", "isProxyError": True},
    ],
    "PROXY_ERROR": [{"error": "refused"}],
    "AUTH_FAILURE": [{"reason": "bad keys"}],
    "STATUS_CHANGE": [
        {"status": status}
        for status in ("connecting", "connected", "open", "reconnecting", "disconnected", "close", "logged_out")
    ],
    "PING": [{}],
    "COMMAND_RESULT": [{"commandId": "c1", "ok": True}],
    "MESSAGE_SENT": [{}],
    "MESSAGE_FAILED": [{}],
    "MESSAGE_STATUS": [{}],
    "MESSAGE_RECEIVED": [{}],
    "MEDIA_READY": [{}],
    "MEDIA_FAILED": [{}],
}


def wanted_by(kind: str, data: dict[str, Any]) -> Status | None:
    meaning = meaning_of(WorkerEvent(session_id="a", type=kind, timestamp=NOW, data=data), now_ms=NOW)
    return Status.CONNECTED if meaning.connected else meaning.effect.status


def after(state: Status, target: Status | None, *, linked: bool) -> Status:
    """What the store's scripts do with the table."""
    return target if target and state in states_that_may_become(target, linked=linked) else state


EVENTS = [(kind, data) for kind in EVENT_TYPES for data in FORMS[kind]]
EVERY_CASE = list(itertools.product(EVENTS, Status, (True, False)))


def test_every_event_type_is_in_these_tests() -> None:
    assert set(FORMS) == set(EVENT_TYPES)


def test_every_state_has_its_moves() -> None:
    assert set(MOVES) == set(Status)


@pytest.mark.parametrize("state", ENDED)
def test_no_event_wakes_an_ended_session(state: Status) -> None:
    for (kind, data), linked in itertools.product(EVENTS, (True, False)):
        assert after(state, wanted_by(kind, data), linked=linked) is state, (kind, data)


def test_no_event_takes_a_linked_session_back_to_a_code() -> None:
    for (kind, data), state, _ in EVERY_CASE:
        if state not in BEFORE_THE_SCAN:
            assert after(state, wanted_by(kind, data), linked=True) not in BEFORE_THE_SCAN, (kind, data, state)


def test_no_event_takes_a_connected_session_back_to_a_code() -> None:
    for kind, data in EVENTS:
        assert after(Status.CONNECTED, wanted_by(kind, data), linked=False) not in BEFORE_THE_SCAN, (kind, data)


def test_the_same_event_again_changes_nothing_further() -> None:
    for (kind, data), state, linked in EVERY_CASE:
        once = after(state, wanted_by(kind, data), linked=linked)
        assert after(once, wanted_by(kind, data), linked=linked) is once, (kind, data, state)


def test_no_event_says_stopped_or_unhealthy() -> None:
    """Those are the operator's and the watchdog's words."""
    assert not {wanted_by(kind, data) for kind, data in EVENTS} & {Status.STOPPED, Status.UNHEALTHY}


@pytest.mark.parametrize("state", [Status.PENDING, Status.QR_READY, Status.RECONNECTING, Status.DISCONNECTED])
def test_a_session_that_lost_its_connection_before_the_scan_gets_a_new_code(state: Status) -> None:
    assert after(state, Status.QR_READY, linked=False) is Status.QR_READY


@pytest.mark.parametrize(
    "state", [Status.PENDING, Status.QR_READY, Status.RECONNECTING, Status.DISCONNECTED, Status.UNHEALTHY]
)
def test_every_live_session_may_connect(state: Status) -> None:
    assert after(state, Status.CONNECTED, linked=True) is Status.CONNECTED


@pytest.mark.parametrize("text", ["a", "worker_7", "A-b_9", "x" * 64])
def test_good_session_ids_pass(text: str) -> None:
    assert checked_session_id(text) == text


@pytest.mark.parametrize(
    "text", ["", "../x", "a:b", "x" * 65, "a\n", "\na", "a b", "a/b", "a.b", "é", "٣", "a\0", "%2e%2e"]
)
def test_odd_session_ids_are_refused_with_the_field_named(text: str) -> None:
    with pytest.raises(InvalidSessionId) as caught:
        checked_session_id(text)
    assert caught.value.details == {"field": "sessionId"}
