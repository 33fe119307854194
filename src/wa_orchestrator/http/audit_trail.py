"""Writes a line into the audit log for every call that changes something, before its answer goes out.

So whoever got an answer finds the line. Messages are not written here: each carries who sent it (`by`) and its story.
"""

from __future__ import annotations

from typing import Any

import structlog

from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.http.asgi import App, Message, Receive, Scope, Send
from wa_orchestrator.http.rights import needs_of, table_key
from wa_orchestrator.store import Store
from wa_orchestrator.store.audit import AuditLine

log = structlog.get_logger()

_CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_LONGEST_SUBJECT = 100


class AuditTrail:
    def __init__(self, inner: App, store: Store) -> None:
        self._inner = inner
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _CHANGING:
            await self._inner(scope, receive, send)
            return

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._note(scope, message["status"])
            await send(message)

        await self._inner(scope, receive, noting)

    async def _note(self, scope: Scope, status: int) -> None:
        line = line_of(scope, status)
        if line is None:
            return
        try:
            await self._store.audit.add(line)
        except OrchestratorError as error:
            log.warning("audit_not_written", by=line.by, what=line.what, on=line.on, status=status, code=error.code)


def line_of(scope: Scope, status: int) -> AuditLine | None:
    """None: nobody was told who calls, or this call leaves no line. Pure."""
    state: dict[str, Any] = scope.get("state", {})
    caller, template = state.get("caller"), state.get("template")
    if caller is None or template is None:
        return None
    needs = needs_of(scope["method"], template)
    if needs is not None and not needs.audited:
        return None
    client = scope.get("client")
    return AuditLine(
        by=caller.by,
        what=table_key(scope["method"], template),
        on=str(state.get("subject") or _subject(scope.get("path_params", {})))[:_LONGEST_SUBJECT],
        status=status,
        code=state.get("error_code", "") if status >= 400 else "",
        address=str(client[0]) if client else "",
        request=state.get("request_id", ""),
    )


def _subject(path_params: dict[str, Any]) -> str:
    return " ".join(str(value) for value in path_params.values())


def name_subject(scope: Scope, subject: str) -> None:
    """What a call is about, where its path does not say it."""
    scope.setdefault("state", {})["subject"] = subject
