"""The workers' own calls as plain ASGI handlers: the busiest routes, without a framework's cost."""

from __future__ import annotations

import re

from wa_orchestrator.errors import MethodNotAllowed
from wa_orchestrator.http.asgi import App, Receive, Scope, Send, header_map, read_body, send_json, until_gone
from wa_orchestrator.worker_api.claims import Claims
from wa_orchestrator.worker_api.intake import Intake

_WEBHOOK_PATHS = frozenset({"/api/webhook", "/webhook"})
_CLAIM = re.compile(r"^/api/worker/sessions/([A-Za-z0-9_-]{1,64})/outbox/claim$")
_BODY_LIMIT = 1 << 20


class WorkerRoutes:
    """In front of the rest: takes what is for it, passes everything else on."""

    def __init__(self, inner: App, *, intake: Intake, claims: Claims) -> None:
        self._inner = inner
        self._intake = intake
        self._claims = claims

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        path: str = scope["path"]
        if path in _WEBHOOK_PATHS:
            _only_post(scope)
            body = await read_body(receive, limit=_BODY_LIMIT)
            await send_json(send, 200, await self._intake.event(body, header_map(scope)))
        elif path.startswith("/api/worker/") and (found := _CLAIM.match(path)):
            _only_post(scope)
            body = await read_body(receive, limit=_BODY_LIMIT)
            self._intake.check_worker(found[1], body, header_map(scope))
            await send_json(send, 200, await self._claims.claim(found[1], body, until_gone(receive)))
        else:
            await self._inner(scope, receive, send)


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
    claim: dict[str, object] = {
        "type": "object",
        "properties": {"max": {"type": "integer"}, "waitMs": {"type": "integer"}, "connection": {"type": "string"}},
    }
    return {
        "/api/webhook": {"post": _operation("worker_event", "An event from a worker", event)},
        "/api/worker/sessions/{sessionId}/outbox/claim": {
            "post": _operation("claim", "A worker's long poll for messages and commands", claim, path=True)
        },
    }


def _operation(name: str, summary: str, schema: dict[str, object], *, path: bool = False) -> dict[str, object]:
    error = {
        "description": "Refused",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorAnswer"}}},
    }
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
            **dict.fromkeys(("400", "401", "404", "405", "410", "413", "422", "500", "503"), error),
        },
    }
