"""What every request passes first: a request id, a bound on the body, hot routes, a last safety net."""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import time

import structlog

from wa_orchestrator.errors import ClientGone, DiskFull, OrchestratorError
from wa_orchestrator.http.asgi import App, Message, Receive, Scope, Send, header_map, send_error
from wa_orchestrator.http.one_write import answer_at_once
from wa_orchestrator.http.too_large import too_large
from wa_orchestrator.http.unexpected import told_to_caller
from wa_orchestrator.logs import request_id as bound_request_id
from wa_orchestrator.metrics.instruments import requests_by_class

log = structlog.get_logger()

_REQUEST_ID = re.compile(r"^[A-Za-z0-9._-]{1,64}$")
_QUIET = frozenset({"/health", "/ready", "/metrics"})
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cache-control", b"no-store"),
]
_SECURITY_NAMES = frozenset(name for name, _ in _SECURITY_HEADERS)
_PROCESS = secrets.token_hex(4)
_numbers = itertools.count(1)


class Gate:
    def __init__(self, inner: App, *, max_body_bytes: int, larger: dict[str, int | None] | None = None) -> None:
        self._inner = inner
        self._limit = max_body_bytes
        self._larger = larger or {}
        # bound once: finding the logger's settings anew costs more than a line that is not written
        self._log = log.bind()
        self._debugs = self._log.is_enabled_for(logging.DEBUG)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = header_map(scope)
        given = headers.get("x-request-id")
        request_id = given if given and _REQUEST_ID.fullmatch(given) else _new_request_id()
        scope["state"]["request_id"] = request_id
        answer = _Answer(scope, send, request_id)
        began = time.perf_counter()
        token = bound_request_id.set(request_id)
        try:
            path = scope["path"]
            limit = None if _bounds_itself(path) else self._larger.get(path, self._limit)
            if limit is not None:
                receive = _checked_length(headers, receive, path=path, limit=limit)
            await self._inner(scope, receive, answer.send)
        except OrchestratorError as error:
            if not answer.status:
                await send_error(answer.send, error, request_id)
        except ClientGone:
            return
        except Exception as error:
            told = told_to_caller(error)
            if isinstance(told, DiskFull):
                self._log.error("disk_full", method=scope["method"], path=_without_secret(scope["path"]))
            else:
                self._log.exception("request_failed", method=scope["method"], path=_without_secret(scope["path"]))
            if not answer.status:
                await send_error(answer.send, told, request_id)
        finally:
            requests_by_class[answer.status // 100] += 1
            if self._debugs and scope["path"] not in _QUIET:
                self._log.debug(
                    "request",
                    method=scope["method"],
                    path=_without_secret(scope["path"]),
                    status=answer.status,
                    ms=round((time.perf_counter() - began) * 1000, 1),
                )
            bound_request_id.reset(token)


def _bounds_itself(path: str) -> bool:
    """Files that workers received: their route knows who sends and how much it takes before it reads."""
    return path.startswith("/api/worker/") and "/inbound/" in path


def _without_secret(path: str) -> str:
    """A scan link is a key to one session: it must not stand in a log."""
    return "/scan/…" if path.startswith("/scan/") else path


class _Answer:
    """Marks what goes out: the request id and the headers that every answer carries."""

    __slots__ = ("_request_id", "_scope", "_send", "status")

    def __init__(self, scope: Scope, send: Send, request_id: str) -> None:
        self._scope = scope
        self._send = send
        self._request_id = request_id
        self.status = 0

    async def send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "http.response.whole":
            self.status = message["status"]
            headers, body = self._marked(message["headers"]), message["body"]
            if answer_at_once(self._scope, self.status, headers, body):
                return
            await self._send({"type": "http.response.start", "status": self.status, "headers": headers})
            message = {"type": "http.response.body", "body": body}
        elif kind == "http.response.start":
            self.status = message["status"]
            message["headers"] = self._marked(message["headers"])
        await self._send(message)

    def _marked(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        present = {name for name, _ in headers}
        extra = _SECURITY_HEADERS
        if not _SECURITY_NAMES.isdisjoint(present):
            extra = [header for header in _SECURITY_HEADERS if header[0] not in present]
        return [*headers, (b"x-request-id", self._request_id.encode()), *extra]


def _new_request_id() -> str:
    """Only has to differ from the others: the process by chance, the request by number."""
    return f"{_PROCESS}{next(_numbers):08x}"


def _checked_length(headers: dict[str, str], receive: Receive, *, path: str, limit: int) -> Receive:
    length = headers.get("content-length")
    if length is None or not length.isdigit():
        return _bounded(receive, path=path, limit=limit)
    if int(length) > limit:
        raise too_large(path, limit)
    return receive  # the HTTP side takes no more than was announced


def _bounded(receive: Receive, *, path: str, limit: int) -> Receive:
    """A body without a length is counted as it comes."""
    size = 0

    async def bounded() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > limit:
            raise too_large(path, limit)
        return message

    return bounded
