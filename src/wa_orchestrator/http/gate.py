"""What every request passes first: a request id, a bound on the body, hot routes, a last safety net."""

from __future__ import annotations

import re
import secrets
import time

import structlog

from wa_orchestrator.errors import ClientGone, OrchestratorError, TooLarge
from wa_orchestrator.http.asgi import App, Message, Receive, Scope, Send, header_map, send_error

log = structlog.get_logger()

_REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
_QUIET = frozenset({"/health", "/ready", "/metrics"})
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
]


class Gate:
    def __init__(self, inner: App, *, max_body_bytes: int, larger: dict[str, int | None] | None = None) -> None:
        self._inner = inner
        self._limit = max_body_bytes
        self._larger = larger or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = header_map(scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        began = time.perf_counter()
        status = 0

        async def send_marked(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name.lower() for name, _ in message["headers"]}
                extra = [h for h in _SECURITY_HEADERS if h[0] not in present]
                message["headers"] = [*message["headers"], (b"x-request-id", request_id.encode()), *extra]
            await send(message)

        with structlog.contextvars.bound_contextvars(request_id=request_id):
            try:
                limit = self._larger.get(scope["path"], self._limit)
                if limit is not None:
                    _check_length(headers, limit)
                    receive = _bounded(receive, limit)
                await self._inner(scope, receive, send_marked)
            except OrchestratorError as error:
                if not status:
                    await send_error(send_marked, error, request_id)
            except ClientGone:
                return
            except Exception:
                log.exception("request_failed", method=scope["method"], path=scope["path"])
                if not status:
                    await send_error(send_marked, OrchestratorError(), request_id)
            finally:
                if scope["path"] not in _QUIET:
                    log.debug(
                        "request",
                        method=scope["method"],
                        path=scope["path"],
                        status=status,
                        ms=round((time.perf_counter() - began) * 1000, 1),
                    )


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit} bytes.")


def _check_length(headers: dict[str, str], limit: int) -> None:
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)


def _bounded(receive: Receive, limit: int) -> Receive:
    """A body without a length is counted as it comes."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise _too_large(limit)
        return message

    return bounded
