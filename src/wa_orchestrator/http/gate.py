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
    def __init__(self, inner: App, *, max_body_bytes: int) -> None:
        self._inner = inner
        self._limit = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = header_map(scope)
        given = headers.get("x-request-id", "")
        request_id = given if _REQUEST_ID.match(given) else secrets.token_hex(8)
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
                self._check_length(headers)
                await self._inner(scope, self._bounded(receive), send_marked)
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

    def _check_length(self, headers: dict[str, str]) -> None:
        length = headers.get("content-length", "0")
        if length.isdigit() and int(length) > self._limit:
            raise TooLarge(f"The body is larger than {self._limit} bytes (MAX_BODY_BYTES).")

    def _bounded(self, receive: Receive) -> Receive:
        """A body without a length is counted as it comes."""
        size = 0

        async def bounded() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self._limit:
                raise TooLarge(f"The body is larger than {self._limit} bytes (MAX_BODY_BYTES).")
            return message

        return bounded
