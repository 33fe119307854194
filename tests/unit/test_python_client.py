"""The Python client's decisions: what is repeated, what is missing, what is believed."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from wa_orchestrator.events.envelopes import native
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator_client import (
    AsyncClient,
    Client,
    Conflict,
    EventsLost,
    RateLimited,
    RetryPolicy,
    SignatureInvalid,
    Unavailable,
    calls,
    verify_webhook,
)
from wa_orchestrator_client.errors import ApiError, ConnectionFailed, api_error
from wa_orchestrator_client.events import Journey
from wa_orchestrator_client.models import EventsPage, Session, read


# retries --------------------------------------------------------------------------------------------------------
def test_what_did_nothing_is_tried_again_whatever_it_was() -> None:
    policy = RetryPolicy(tries=3)
    for error in (Unavailable(503, "STORE_UNAVAILABLE", ""), RateLimited(429, "TOO_MANY_REQUESTS", "")):
        assert policy.wait_s(1, error, repeatable=False) is not None
        assert policy.wait_s(3, error, repeatable=False) is None


def test_a_broken_connection_is_only_tried_again_where_a_repeat_is_harmless() -> None:
    policy = RetryPolicy()
    for error in (ConnectionFailed(), Unavailable(502, "", ""), Unavailable(504, "", "")):
        assert policy.wait_s(1, error, repeatable=True) is not None
        assert policy.wait_s(1, error, repeatable=False) is None


def test_the_server_says_how_long_to_wait() -> None:
    policy = RetryPolicy(longest_wait_s=10)
    assert policy.wait_s(1, RateLimited(429, "", "", retry_after_s=7), repeatable=True) == 7
    # the day's limit: hours; nobody should sit and wait for that
    assert policy.wait_s(1, RateLimited(429, "DAILY_LIMIT", "", retry_after_s=7000), repeatable=True) is None


def test_other_refusals_are_final() -> None:
    for status in (400, 401, 403, 404, 409, 422, 500):
        assert RetryPolicy().wait_s(1, api_error(status, None), repeatable=True) is None


def test_pauses_grow_and_stay_bounded() -> None:
    policy = RetryPolicy(tries=20, first_wait_s=1, longest_wait_s=8)
    waits = [policy.wait_s(n, ConnectionFailed(), repeatable=True) or 0 for n in range(1, 15)]
    assert 0.5 <= waits[0] <= 1
    assert max(waits) <= 8


# calls ----------------------------------------------------------------------------------------------------------
def test_every_message_has_a_key_and_a_repeat_has_the_same() -> None:
    call = calls.send("972501234567", "hi")
    assert call.repeatable
    assert len(call.headers["Idempotency-Key"]) == 32
    assert calls.send("972501234567", "hi").headers != call.headers
    assert calls.send("1", "hi", idempotency_key="mine").headers == {"Idempotency-Key": "mine"}
    bulk = calls.send_bulk([{"to": "1", "message": "a"}, {"to": "2", "message": "b", "idempotencyKey": "mine"}])
    assert bulk.json[1]["idempotencyKey"] == "mine"
    assert len(bulk.json[0]["idempotencyKey"]) == 32


def test_making_a_session_is_not_repeated_blindly() -> None:
    assert not calls.provision(label="a").repeatable


def test_names_become_camel_case_and_ids_cannot_leave_their_place() -> None:
    call = calls.provision(session_id="a", allow_additional=True, phone=None)
    assert call.json == {"sessionId": "a", "allowAdditional": True}
    assert calls.session("../proxies?x").path == "/api/sessions/..%2Fproxies%3Fx"


def test_both_clients_have_the_same_methods_with_the_same_arguments() -> None:
    def methods(kind: type) -> dict[str, list[str]]:
        found = inspect.getmembers(kind, inspect.isfunction)
        return {name: list(inspect.signature(one).parameters) for name, one in found if not name.startswith("__")}

    assert methods(Client) == methods(AsyncClient)


# answers --------------------------------------------------------------------------------------------------------
def test_answers_are_typed_and_newer_fields_do_no_harm() -> None:
    body: dict[str, Any] = {
        "sessionId": "a", "status": "connected", "proxy": {"id": "px_1", "host": "h", "port": 1}, "tomorrow": {"x": 1},
        "createdAt": "2026-01-02T03:04:05.678+00:00", "today": {"sent": 3, "limit": None, "waiting": 1},
    }  # fmt: skip
    session = read(Session, body)
    assert session.connected
    assert session.created_at is not None
    assert session.created_at.year == 2026
    assert session.proxy is not None
    assert session.proxy.host == "h"
    assert session.today is not None
    assert session.today.limit is None
    assert session.raw["tomorrow"] == {"x": 1}


def test_errors_are_told_by_status_and_code_whoever_wrote_them() -> None:
    told = {"error": {"code": "SESSION_EXISTS", "message": "It exists.", "requestId": "r1", "details": {"a": 1}}}
    error = api_error(409, told)
    assert isinstance(error, Conflict)
    assert (error.code, error.details, error.request_id) == ("SESSION_EXISTS", {"a": 1}, "r1")
    bodies: tuple[object, ...] = (None, "<html>", [], {"error": "text"})
    for body in bodies:
        assert api_error(503, body).code == "UNKNOWN"
    assert type(api_error(418, None)) is ApiError


# events ---------------------------------------------------------------------------------------------------------
def page(*numbers: int, last: int | None = None, gap: dict[str, Any] | None = None) -> EventsPage:
    events = [{"number": n, "type": "a", "data": {}} for n in numbers]
    body: dict[str, Any] = {"events": events, "last": last if last is not None else numbers[-1], "oldest": 1}
    return read(EventsPage, {**body, "gap": gap} if gap else body)


def test_a_listener_goes_on_after_what_was_looked_at() -> None:
    journey = Journey(after=5, types=("message.*",), session_id="shop")
    assert journey.next_call().params == {
        "after": 5, "types": "message.*", "session": "shop", "limit": 500, "waitMs": 25000,
    }  # fmt: skip
    assert [e.number for e in journey.took(page(7, 9, last=12))] == [7, 9]
    assert journey.next_call().params["after"] == 12
    assert journey.took(page(last=12)) == ()


def test_zero_is_a_place_too() -> None:
    assert Journey(after=0).next_call().params["after"] == 0


def test_what_is_missing_is_told() -> None:
    journey = Journey(after=5)
    with pytest.raises(EventsLost) as lost:
        journey.took(page(20, gap={"from": 6, "to": 19}))
    assert (lost.value.after, lost.value.next_number) == (5, 20)
    with pytest.raises(EventsLost) as lost:
        journey.took(page(1, gap={"from": 6, "to": None, "restarted": True}))
    assert lost.value.next_number == 1


def test_without_a_number_a_listener_begins_at_the_end() -> None:
    journey = Journey(after=None)
    for last in (20_000, 40_000, 41_000):
        call = journey.next_call()
        assert call.params["waitMs"] == 0
        assert journey.took(page(last=last)) == ()
    assert journey.next_call().params["after"] == 41_000
    assert journey.next_call().params["waitMs"] > 0


# webhooks -------------------------------------------------------------------------------------------------------
def signed(at_ms: int = 1_700_000_000_000) -> tuple[bytes, dict[str, str]]:
    entry = JournalEntry(number=1, type="message.sent", session_id="a", at=at_ms, data={"to": "שלום"})
    made = native(entry, Webhook(webhook_id="wh_1", url="https://a.example", secret="s3cret-s3cret-16"), {}, at_ms)
    return made.body, made.headers


def test_what_the_server_signs_is_believed() -> None:
    body, headers = signed()
    verify_webhook(body, headers, "s3cret-s3cret-16", now_s=1_700_000_100)
    verify_webhook(body, {name.upper(): value for name, value in headers.items()}, "s3cret-s3cret-16",
                   now_s=1_700_000_100)  # fmt: skip


@pytest.mark.parametrize(
    ("change", "now_s"),
    [
        ({"body": b"{}"}, 1_700_000_000),
        ({"secret": "another-secret-16"}, 1_700_000_000),
        ({"X-Webhook-Timestamp": "1700000000001"}, 1_700_000_000),
        ({"X-Webhook-Timestamp": ""}, 1_700_000_000),
        ({"X-Webhook-Signature": ""}, 1_700_000_000),
        ({}, 1_700_000_301),
        ({}, 1_699_999_699),
    ],
)
def test_anything_else_is_not(change: dict[str, Any], now_s: float) -> None:
    body, headers = signed()
    given = {**headers, **{name: value for name, value in change.items() if name.startswith("X-")}}
    with pytest.raises(SignatureInvalid):
        verify_webhook(change.get("body", body), given, change.get("secret", "s3cret-s3cret-16"), now_s=now_s)
