"""The server is what its OpenAPI document says, whatever is thrown at it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from support.control_plane import API_KEY, SILENT_WORKER, WEBHOOK_SECRET, proxy_url, signed_headers
from support.servers import StoreServer
from support.system import System

SESSION = "fuzzed"


def not_a_server_error(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case[Any]
) -> None:
    """503 is an honest answer here (no free slot, a worker that says nothing); any other 5xx is a fault."""
    assert response.status_code < 500 or response.status_code == 503, response.text
    if response.status_code == 503:
        expected = {"NO_PROXY_AVAILABLE", "WORKER_SILENT", "NO_SESSION_AVAILABLE"}
        assert json.loads(response.text)["error"]["code"] in expected, response.text


CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def served(valkey: StoreServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """A server in a process of its own, called from outside like by any client."""
    with redis.Redis(port=valkey.port) as client:
        client.flushall()
    settings_ = {
        "API_KEY": API_KEY,
        "WEBHOOK_SECRET": WEBHOOK_SECRET,
        "REDIS_URL": valkey.url,
        "WORKER_COMMAND": SILENT_WORKER,
        "PROXY_BAD_AFTER": 100,
        "PROXY_TIMEOUT_MS": 200,
        "PROXY_CHECK_TARGET": "127.0.0.1:1",
    }
    with System(tmp_path_factory.mktemp("fuzz"), simulate=False, **settings_) as system:
        for number in range(3):
            system.api.post("/api/v1/proxies", {"proxy": proxy_url(number)})
        system.provision(sessionId=SESSION)
        yield system


def test_every_operation_answers_as_documented(served: System) -> None:
    key = {"X-Api-Key": served.ready["apiKey"]}
    document = schemathesis.openapi.from_url(f"{served.api.base}/openapi.json", headers=key)
    # the stream never ends; everything else is tried
    found = list(document.exclude(path_regex="/stream$").get_all_operations())
    operations = [result.ok() for result in found if isinstance(result, Ok)]
    assert len(operations) == len(found), "a part of the document cannot be understood"
    assert len(operations) >= 20
    for operation in operations:
        _try(operation)


def _try(operation: schemathesis.APIOperation[Any, Any, Any, Any]) -> None:
    @settings(
        max_examples=8,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def run(case: schemathesis.Case[Any]) -> None:
        headers = {"X-Api-Key": API_KEY}
        if case.path.startswith(("/api/webhook", "/api/worker/")):
            _speak_as_a_worker(case, headers)
        elif case.path_parameters and len(str(case.path_parameters.get("session_id", ""))) % 2:
            case.path_parameters["session_id"] = SESSION  # half the calls reach what is behind an unknown id
        if case.query and isinstance(case.query.get("waitMs"), int):
            case.query["waitMs"] = min(case.query["waitMs"], 10)  # a poll may wait longer than we do
        case.call_and_validate(headers=headers, timeout=20, checks=CHECKS)

    run()


def _speak_as_a_worker(case: schemathesis.Case[Any], headers: dict[str, str]) -> None:
    """Signs what was made up, so that it reaches more than the check of the signature."""
    session = SESSION
    if case.path_parameters:
        case.path_parameters["sessionId"] = SESSION
    if isinstance(case.body, dict):
        if "sessionId" in case.body:
            case.body["sessionId"] = SESSION
        if "waitMs" in case.body:
            case.body["waitMs"] = min(case.body["waitMs"], 10) if isinstance(case.body["waitMs"], int) else 0
        raw = json.dumps(case.body).encode()
        case.body = json.loads(raw)
        headers |= signed_headers(session, raw)


def test_the_document_lists_the_routes_of_workers_and_people(served: System) -> None:
    assert {
        "/api/webhook",
        "/api/worker/sessions/{sessionId}/outbox/claim",
        "/api/sessions/provision",
        "/api/sessions/{session_id}/qr",
        "/api/v1/proxies/{proxy_id}/check",
        "/health",
        "/ready",
    } <= set(served.api.get("/openapi.json")["paths"])


def test_no_slot_is_lost_or_doubled_afterwards(served: System) -> None:
    sessions = {s["sessionId"]: s for s in served.api.get("/api/sessions?limit=1000")["sessions"]}
    held = [(session, p["id"]) for p in served.api.get("/api/v1/proxies")["proxies"] for session in p["sessions"]]
    assert len(held) == len({session for session, _ in held})
    assert all(sessions[session]["proxy"]["id"] == proxy for session, proxy in held)
    assert "request_failed" not in served.log.read_text(errors="replace")
