"""Sending as plain ASGI handlers in front of the framework: the busiest routes clients use."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs

import msgspec

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import ClientGone, InvalidBody, MethodNotAllowed, OrchestratorError
from wa_orchestrator.gateway.accept import Gateway, SendBody, decode_send
from wa_orchestrator.gateway.bulk import Bulk, items_of_array, lines_of
from wa_orchestrator.http.asgi import App, Receive, Scope, Send, body_chunks, header_map, read_body, send_json
from wa_orchestrator.http.auth import Door
from wa_orchestrator.http.rights import check_right, needs_of
from wa_orchestrator.model.caller import Caller

_SEND = frozenset({"/api/v1/send", "/api/send"})
_BULK = frozenset({"/api/v1/send/bulk", "/api/send/bulk"})
_NEEDS = needs_of("POST", "/api/v1/send")  # the same as for many at once
_MOST_SPREAD_MINUTES = 7 * 24 * 60
BULK_BYTES = 8 << 20  # an array is held in memory; a stream of lines has no such bound


class SendRoutes:
    def __init__(
        self,
        inner: App,
        *,
        gateway: Gateway,
        clock: Clock,
        door: Door,
        max_body_bytes: int,
    ) -> None:
        self._inner = inner
        self._gateway = gateway
        self._clock = clock
        self._door = door
        self._limit = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or (path not in _SEND and path not in _BULK):
            await self._inner(scope, receive, send)
            return
        headers = header_map(scope)
        caller = await self._door.caller(headers, scope["method"])
        if scope["method"] != "POST":
            raise MethodNotAllowed("Use POST here.")
        check_right(caller, _NEEDS)
        if path in _SEND:
            await self._one(path, headers, receive, send, caller)
        else:
            await self._many(scope, headers, receive, send, caller)

    async def _one(self, path: str, headers: dict[str, str], receive: Receive, send: Send, caller: Caller) -> None:
        body = decode_send(await read_body(receive, limit=self._limit, path=path))
        accepted = await self._gateway.accept(
            body,
            caller=caller,
            idempotency_key=headers.get("idempotency-key"),
            traceparent=headers.get("traceparent"),
        )
        extra = [(b"idempotent-replayed", b"true")] if accepted.replayed else None
        await send_json(send, 202, accepted.body, headers=extra)

    async def _many(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send, caller: Caller) -> None:
        spread_ms = _spread_minutes(scope) * 60_000
        if "ndjson" in headers.get("content-type", "") or "jsonl" in headers.get("content-type", ""):
            if spread_ms:
                raise InvalidBody("spreadMinutes needs an array: a stream does not say how many will come.",
                                  details={"field": "spreadMinutes"})  # fmt: skip
            bulk = Bulk(self._gateway, caller=caller)
            await self._stream(bulk.results(lines_of(body_chunks(receive))), send)
            return
        items = items_of_array(await read_body(receive, limit=BULK_BYTES, path=scope["path"]))
        bulk = Bulk(self._gateway, caller=caller, spread_ms=spread_ms, now_ms=self._clock.now_ms(), total=len(items))
        results = [result async for result in bulk.results(_each(items))]
        queued = sum(result["queued"] for result in results)
        await send_json(send, 202, {"accepted": queued, "rejected": len(results) - queued, "results": results})

    async def _stream(self, results: AsyncIterator[dict[str, Any]], send: Send) -> None:
        """A result line per message while more come in. A connection cut in between: resume with idempotency keys."""
        await send({"type": "http.response.start", "status": 202,
                    "headers": [(b"content-type", b"application/x-ndjson")]})  # fmt: skip
        encoder = msgspec.json.Encoder()
        try:
            async for result in results:
                await send({"type": "http.response.body", "body": encoder.encode(result) + b"\n", "more_body": True})
        except ClientGone:
            raise
        except OrchestratorError as error:
            told = {"queued": False, "error": {"code": error.code, "message": error.message}}
            await send({"type": "http.response.body", "body": encoder.encode(told) + b"\n", "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _spread_minutes(scope: Scope) -> int:
    given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("spreadMinutes", ["0"])[0]
    if not given.isascii() or not given.isdigit() or len(given) > 6 or int(given) > _MOST_SPREAD_MINUTES:
        raise InvalidBody("spreadMinutes: a whole number of minutes, a week at most.",
                          details={"field": "spreadMinutes"})  # fmt: skip
    return int(given)


async def _each(items: list[bytes]) -> AsyncIterator[bytes]:
    for item in items:
        yield item


def openapi_paths(error_codes: dict[str, object], schema_of: Any) -> dict[str, object]:
    """The same routes for the OpenAPI document."""
    one = schema_of(SendBody)
    key = {"name": "Idempotency-Key", "in": "header", "required": False, "schema": {"type": "string"}}
    spread = {"name": "spreadMinutes", "in": "query", "required": False, "schema": {"type": "integer", "minimum": 0}}
    answer = {
        "type": "object",
        "required": ["queued", "messageId"],
        "properties": {
            "queued": {"type": "boolean"},
            "messageId": {"type": "string"},
            "sessionId": {"type": ["string", "null"]},
            "estimatedSendAt": {"type": ["string", "null"]},
        },
    }
    accepted: object = {"description": "Queued", "content": {"application/json": {"schema": answer}}}
    results = {"description": "A result per item", "content": {
        "application/json": {"schema": {"type": "object"}},
        "application/x-ndjson": {"schema": {"type": "object"}}}}  # fmt: skip
    security: object = [{"APIKeyHeader": []}]
    return {
        "/api/v1/send": {"post": {
            "operationId": "send", "tags": ["messages"], "summary": "Send a message", "parameters": [key],
            "security": security,
            "requestBody": {"required": True, "content": {"application/json": {"schema": one}}},
            "responses": {"202": accepted, **error_codes}}},
        "/api/v1/send/bulk": {"post": {
            "operationId": "send_bulk", "tags": ["messages"], "parameters": [spread], "security": security,
            "summary": "Send many messages: an array, or one JSON object per line; each may carry idempotencyKey",
            "requestBody": {"required": True, "content": {
                "application/json": {"schema": {"type": "array", "items": one}}}},
            "responses": {"202": results, **error_codes}}},
    }  # fmt: skip
