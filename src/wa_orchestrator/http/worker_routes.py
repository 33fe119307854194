"""The workers' own calls as plain ASGI handlers: the busiest routes, without a framework's cost."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from wa_orchestrator.errors import MethodNotAllowed
from wa_orchestrator.gateway.media import MediaStore
from wa_orchestrator.http.asgi import (
    App,
    Receive,
    Scope,
    Send,
    body_chunks,
    header_map,
    read_body,
    send_file,
    send_json,
)
from wa_orchestrator.http.noticing import hang_up_of
from wa_orchestrator.worker_api.claims import ClaimRequest, Claims
from wa_orchestrator.worker_api.intake import Intake
from wa_orchestrator.worker_api.outcomes import Ack, Nack, Outcomes
from wa_orchestrator.worker_api.uploads import InboundUploads

_WEBHOOK_PATHS = frozenset({"/api/webhook", "/webhook"})
_OUTBOX = re.compile(r"^/api/worker/sessions/([A-Za-z0-9_-]{1,64})/outbox/(claim|ack|nack)$")
_MEDIA = re.compile(r"^/api/worker/sessions/([A-Za-z0-9_-]{1,64})/media/([A-Za-z0-9_-]{1,64})$")
_INBOUND = re.compile(r"^/api/worker/sessions/([A-Za-z0-9_-]{1,64})/inbound/(in_[0-9a-f]{24})$")
_BODY_LIMIT = 1 << 20


class WorkerRoutes:
    """In front of the rest: takes what is for it, passes everything else on."""

    def __init__(
        self,
        inner: App,
        *,
        intake: Intake,
        claims: Claims,
        outcomes: Outcomes,
        media: MediaStore,
        inbound: InboundUploads,
    ) -> None:
        self._inner = inner
        self._intake = intake
        self._claims = claims
        self._outcomes = outcomes
        self._media = media
        self._inbound = inbound

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        path: str = scope["path"]
        if path in _WEBHOOK_PATHS:
            _only_post(scope)
            body = await read_body(receive, limit=_BODY_LIMIT)
            await send_json(send, 200, await self._intake.event(body, header_map(scope)))
        elif path.startswith("/api/worker/") and (found := _OUTBOX.fullmatch(path)):
            _only_post(scope)
            await self._outbox(found[1], found[2], scope, receive, send)
        elif path.startswith("/api/worker/") and (found := _MEDIA.match(path)):
            self._intake.check_worker(found[1], b"", header_map(scope))
            await send_file(send, self._media.path(found[2]))
        elif path.startswith("/api/worker/") and (found := _INBOUND.fullmatch(path)):
            if scope["method"] != "PUT":
                raise MethodNotAllowed("Use PUT here.")
            answer = await self._inbound.take(found[1], found[2], path, header_map(scope), body_chunks(receive))
            await send_json(send, 200, answer)
        else:
            await self._inner(scope, receive, send)

    async def _outbox(self, session_id: str, what: str, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive, limit=_BODY_LIMIT)
        self._intake.check_worker(session_id, body, header_map(scope))
        if what == "claim":
            answer = await self._claims.claim(session_id, body, hang_up_of(scope))
        elif what == "ack":
            answer = await self._outcomes.ack(session_id, body)
        else:
            answer = await self._outcomes.nack(session_id, body)
        await send_json(send, 200, answer)


def _only_post(scope: Scope) -> None:
    if scope["method"] != "POST":
        raise MethodNotAllowed("Use POST here.")


def openapi_paths() -> dict[str, object]:
    """The same routes for the OpenAPI document."""
    event: dict[str, object] = {
        "type": "object",
        "required": ["sessionId", "type", "timestamp"],
        "properties": {
            "sessionId": {"type": "string"},
            "type": {"type": "string"},
            "timestamp": {"type": "integer", "description": "ms since the epoch"},
            "seq": {"type": "integer"},
            "stream": {"type": "string"},
            "data": {"type": "object"},
        },
    }
    claim = schema_of(ClaimRequest)
    return {
        "/api/webhook": {"post": _operation("worker_event", "An event from a worker", event)},
        "/api/worker/sessions/{sessionId}/outbox/claim": {
            "post": _operation("claim", "A worker's long poll for messages and commands", claim, path=True)
        },
        "/api/worker/sessions/{sessionId}/outbox/ack": {
            "post": _operation("ack", "WhatsApp has the message", schema_of(Ack), path=True)
        },
        "/api/worker/sessions/{sessionId}/inbound/{mediaId}": {"put": _upload_operation()},
        "/api/worker/sessions/{sessionId}/outbox/nack": {
            "post": _operation("nack", "The message could not be sent", schema_of(Nack), path=True)
        },
    }


def _upload_operation() -> dict[str, object]:
    file: dict[str, object] = {"type": "string", "format": "binary"}
    operation = _operation("inbound_upload", "A file that came with an incoming message", file, path=True)
    operation["requestBody"] = {"required": True, "content": {"application/octet-stream": {"schema": file}}}
    parameters: Any = operation["parameters"]
    parameters.append({"name": "mediaId", "in": "path", "required": True, "schema": {"type": "string"}})
    parameters.append({"name": "X-Content-Sha256", "in": "header", "required": False, "schema": {"type": "string"}})
    return operation


def error_answers() -> dict[str, object]:
    error = {
        "description": "Refused",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}},
    }
    codes = ("400", "401", "404", "405", "409", "410", "413", "422", "429", "500", "503")
    return dict.fromkeys(codes, error)


def schema_of(kind: type) -> dict[str, object]:
    """A struct's JSON Schema, whole: OpenAPI would look for its parts elsewhere."""
    schema, parts = msgspec.json.schema_components([kind], ref_template="{name}")
    found: dict[str, object] = _resolved(parts[kind.__name__] if "$ref" in schema[0] else schema[0], parts)
    return found


def _resolved(schema: Any, parts: dict[str, Any]) -> Any:
    if isinstance(schema, dict):
        if "$ref" in schema:
            return _resolved(parts[schema["$ref"]], parts)
        return {key: _resolved(value, parts) for key, value in schema.items()}
    return [_resolved(item, parts) for item in schema] if isinstance(schema, list) else schema


def _operation(name: str, summary: str, schema: dict[str, object], *, path: bool = False) -> dict[str, object]:
    parameters: list[dict[str, object]] = [
        {"name": header, "in": "header", "required": False, "schema": {"type": "string"}}
        for header in ("X-Webhook-Timestamp", "X-Webhook-Signature")
    ]
    if path:
        parameters.append({"name": "sessionId", "in": "path", "required": True, "schema": {"type": "string"}})
    return {
        "operationId": name,
        "summary": summary,
        "tags": ["workers"],
        "parameters": parameters,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": {
            "200": {"description": "Accepted", "content": {"application/json": {"schema": {"type": "object"}}}},
            **error_answers(),
        },
    }
