"""What each event of a worker means."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.model.session import Status
from wa_orchestrator.worker_api.projector import EVENT_TYPES, Meaning, WorkerEvent, meaning_of

NOW = 1_700_000_000_000


def meaning(kind: str, data: dict[str, Any] | None = None, *, at: int = NOW) -> Meaning:
    return meaning_of(WorkerEvent(session_id="a", type=kind, timestamp=at, data=data or {}), now_ms=NOW)


def refused(kind: str, data: dict[str, Any] | None = None) -> object:
    """The field that is named as wrong."""
    with pytest.raises(InvalidBody) as caught:
        meaning(kind, data)
    assert caught.value.details is not None
    return caught.value.details["field"]


# codes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("kind", "name"), [("QR_CODE", "qr"), ("QR_UPDATE", "qrCode"), ("QR_UPDATE", "qr")])
def test_a_code_is_shown_for_as_long_as_it_lives(kind: str, name: str) -> None:
    effect = meaning(kind, {name: "2@abc", "expiresInMs": 20_000}).effect
    assert (effect.status, effect.qr_ms) == (Status.QR_READY, 20_000)
    assert json.loads(effect.qr) == {"qr": "2@abc", "expiresAt": NOW + 20_000}


def test_a_code_without_a_lifetime_lives_a_minute() -> None:
    assert meaning("QR_CODE", {"qr": "2@abc"}).effect.qr_ms == 60_000


def test_a_code_that_lay_in_the_spool_lives_for_the_rest_only() -> None:
    effect = meaning("QR_CODE", {"qr": "2@abc", "expiresInMs": 20_000}, at=NOW - 15_000).effect
    assert effect.qr_ms == 5_000


def test_an_expired_code_changes_nothing() -> None:
    found = meaning("QR_CODE", {"qr": "2@abc", "expiresInMs": 20_000}, at=NOW - 20_000)
    assert (found.effect.status, found.effect.qr, found.note) == (None, "", {"expired": True})


def test_a_worker_whose_clock_is_ahead_does_not_make_a_code_live_longer() -> None:
    assert meaning("QR_CODE", {"qr": "2@abc", "expiresInMs": 20_000}, at=NOW + 60_000).effect.qr_ms == 20_000


def test_an_absurd_lifetime_is_cut() -> None:
    assert meaning("QR_CODE", {"qr": "2@abc", "expiresInMs": 10**15}).effect.qr_ms == 600_000


def test_a_code_is_not_kept_in_the_journal() -> None:
    assert "2@abc" not in str(meaning("QR_CODE", {"qr": "2@abc"}).note)
    assert meaning("PAIRING_CODE", {"code": "ABCD1234", "phone": "972501234567"}).note == {}


@pytest.mark.parametrize("data", [{}, {"qr": ""}, {"qr": 7}, {"qr": None}, {"qr": "x" * 5000}])
def test_a_code_that_cannot_be_shown_is_refused(data: dict[str, Any]) -> None:
    assert refused("QR_CODE", data) == "data.qr"


# connected ------------------------------------------------------------------------------------------------------
def test_connected_names_the_phone() -> None:
    data = {"phoneNumber": "972501234567", "jid": "972501234567:3@s.whatsapp.net", "lid": "77@lid", "fingerprint": "f"}
    connected = meaning("CONNECTED", data).connected
    assert connected is not None
    assert (connected.phone, connected.jid, connected.lid, connected.fingerprint) == (
        "972501234567", "972501234567:3@s.whatsapp.net", "77@lid", "f",
    )  # fmt: skip


def test_a_missing_number_is_read_from_the_jid() -> None:
    connected = meaning("CONNECTED", {"jid": "972501234567:3@s.whatsapp.net"}).connected
    assert connected is not None
    assert connected.phone == "972501234567"


@pytest.mark.parametrize("data", [{}, {"phoneNumber": "abc"}, {"phoneNumber": 972501234567}, {"jid": "@"}])
def test_connected_without_a_phone_is_refused(data: dict[str, Any]) -> None:
    assert refused("CONNECTED", data) == "data.phoneNumber"


# disconnected ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("code", "reason"),
    [(515, "restart_required"), (428, "connection_closed"), (408, "connection_lost"), (503, "unavailable")],
)
def test_a_lost_connection_is_left_to_the_worker(code: int, reason: str) -> None:
    found = meaning("DISCONNECTED", {"reason": reason, "code": code, "isProxyError": False, "isLoggedOut": False})
    assert (found.effect.status, found.effect.reason) == (Status.RECONNECTING, reason.upper())
    assert not found.effect.park
    assert found.proxy_suspect == ""
    fields = found.effect.fields or {}
    if code == 515:  # every pairing ends so: nothing went wrong
        assert "lastDisconnectAt" not in fields
    else:
        assert (fields["lastDisconnectCode"], fields["lastDisconnectAt"]) == (str(code), NOW)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(440, "REPLACED"), (403, "FORBIDDEN"), (405, "VERSION_OUTDATED"), (411, "MULTIDEVICE_MISMATCH"),
     (463, "RESTRICTED"), (402, "REFUSED"), (409, "REFUSED")],
)  # fmt: skip
def test_final_words_end_the_session_without_a_reconnect_storm(code: int, reason: str) -> None:
    effect = meaning("DISCONNECTED", {"reason": reason.lower(), "code": code}).effect
    assert (effect.status, effect.reason, effect.park, effect.unlink) == (Status.FAILED, reason, True, False)


@pytest.mark.parametrize(
    "data", [{"code": 401}, {"code": "401"}, {"isLoggedOut": True}, {"reason": "logged_out", "code": 401}]
)
def test_logged_out_unlinks_the_device(data: dict[str, Any]) -> None:
    effect = meaning("DISCONNECTED", data).effect
    assert (effect.status, effect.unlink, effect.park) == (Status.LOGGED_OUT, True, True)


def test_a_401_that_is_said_not_to_be_a_logout_is_none() -> None:
    effect = meaning("DISCONNECTED", {"code": 401, "isLoggedOut": False}).effect
    assert (effect.status, effect.unlink) == (Status.RECONNECTING, False)


@pytest.mark.parametrize(
    "data", [{"isProxyError": True}, {"reason": "proxy_error"}, {"isProxyError": True, "code": 401}]
)
def test_a_proxy_error_makes_the_proxy_a_suspect(data: dict[str, Any]) -> None:
    found = meaning("DISCONNECTED", data)
    assert (found.effect.status, found.effect.reason) == (Status.DISCONNECTED, "PROXY_ERROR")
    assert found.proxy_suspect
    assert not found.effect.unlink


def test_a_worker_that_gives_up_ends_the_session() -> None:
    effect = meaning("DISCONNECTED", {"reason": "bad_session", "code": 500, "willReconnect": False}).effect
    assert (effect.status, effect.reason, effect.park) == (Status.FAILED, "BAD_SESSION", True)


def test_a_code_nobody_scanned_in_time_waits_for_the_next() -> None:
    effect = meaning("DISCONNECTED", {"reason": "qr_expired", "code": 408}).effect
    assert (effect.status, effect.reason) == (Status.PENDING, "QR_EXPIRED")


# others ---------------------------------------------------------------------------------------------------------
def test_a_proxy_report_makes_the_proxy_a_suspect() -> None:
    found = meaning("PROXY_ERROR", {"error": "connection refused", "kind": "refused"})
    assert (found.effect.status, found.proxy_suspect) == (Status.DISCONNECTED, "connection refused")


def test_an_auth_failure_needs_a_new_code() -> None:
    effect = meaning("AUTH_FAILURE", {"reason": "keys unreadable"}).effect
    assert (effect.status, effect.unlink, effect.park) == (Status.LOGGED_OUT, True, True)


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"status": "connecting"}, Status.PENDING),
        ({"status": "CONNECTED"}, Status.CONNECTED),
        ({"status": "reconnecting"}, Status.RECONNECTING),
        ({"status": "disconnected"}, Status.DISCONNECTED),
        ({"status": "close"}, Status.DISCONNECTED),
        ({"status": "logged_out"}, Status.LOGGED_OUT),
        ({"status": "qr", "qrCode": "2@abc"}, Status.QR_READY),
        ({"status": "qr"}, None),
    ],
)
def test_the_older_form_is_mapped(data: dict[str, Any], status: Status | None) -> None:
    assert meaning("STATUS_CHANGE", data).effect.status is status


def test_the_older_form_of_connected_binds_the_phone() -> None:
    connected = meaning("STATUS_CHANGE", {"status": "connected", "phone": "972501234567"}).connected
    assert connected is not None
    assert connected.phone == "972501234567"


@pytest.mark.parametrize("error", ["SOCKS5 login failed", "Proxy connection timed out", "could not reach proxy"])
def test_an_older_error_that_names_the_proxy_makes_it_a_suspect(error: str) -> None:
    found = meaning("STATUS_CHANGE", {"status": "disconnected", "error": error})
    assert (found.effect.status, found.proxy_suspect) == (Status.DISCONNECTED, error)


def test_an_older_error_that_does_not_name_the_proxy_is_only_told() -> None:
    found = meaning("STATUS_CHANGE", {"status": "disconnected", "error": "stream errored"})
    assert (found.effect.reason, found.proxy_suspect) == ("stream errored", "")


@pytest.mark.parametrize("data", [{}, {"status": "dancing"}, {"status": 5}])
def test_an_unknown_older_status_is_refused(data: dict[str, Any]) -> None:
    assert refused("STATUS_CHANGE", data) == "data.status"


def test_a_ping_is_quiet_and_brings_what_was_measured() -> None:
    effect = meaning("PING", {"connection": "open", "rssBytes": 5, "spooled": 0, "uptimeS": 3}).effect
    assert effect.quiet
    assert effect.status is None
    assert effect.fields == {"lastPing": NOW, "connection": "open", "rssBytes": 5, "spooled": 0}


def test_the_answer_to_a_command_is_passed_on_without_its_result_in_the_journal() -> None:
    found = meaning("COMMAND_RESULT", {"commandId": "c1", "ok": True, "result": {"code": "ABCD1234"}})
    assert json.loads(found.effect.result) == {"ok": True, "result": {"code": "ABCD1234"}}
    assert found.note == {"commandId": "c1", "ok": True}
    assert refused("COMMAND_RESULT", {"ok": True}) == "data.commandId"


@pytest.mark.parametrize("kind", ["DISCONNECTED", "PROXY_ERROR", "AUTH_FAILURE", "STATUS_CHANGE"])
def test_a_password_in_a_report_is_neither_kept_nor_told(kind: str) -> None:
    text = "cannot use socks5h://user:s3cr3t@proxy.example:1080"
    found = meaning(kind, {"status": "disconnected", "error": text, "reason": text, "deep": [{"a": text}]})
    assert found.note is not None
    assert "proxy.example" in str(found)
    assert "s3cr3t" not in str(found)


def test_an_unknown_type_is_refused() -> None:
    assert refused("DANCE") == "type"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=5,
)
_NAMES = st.sampled_from(
    ["qr", "qrCode", "expiresInMs", "phoneNumber", "jid", "code", "reason", "isProxyError", "isLoggedOut", "status",
     "error", "willReconnect", "commandId", "ok", "result", "connection", "rssBytes", "lastReceivedAt"]
)  # fmt: skip


@given(st.sampled_from(EVENT_TYPES), st.dictionaries(_NAMES, _JSON, max_size=6), st.integers(0, 2**52))
def test_whatever_a_worker_sends_is_understood_or_refused(kind: str, data: dict[str, Any], at: int) -> None:
    try:
        found = meaning(kind, data, at=at)
    except InvalidBody as error:
        problem = error.details
    else:
        problem = None
    if problem is not None:
        assert str(problem["field"]).startswith("data.")
        return
    for value in (found.effect.fields or {}).values():
        assert isinstance(value, str) or abs(value) <= 2**53
    assert found.effect.qr_ms <= 600_000
