"""What each address needs: one table for all of them. A test walks over every route of the server and this table.

To add a route: put a line into `TABLE`, `"METHOD /path"` without the prefix `/api` or `/api/v1`, with the rights of
which the caller needs one, and what it means for a key that is limited to sessions:

- `SESSION`  the path or the query names the session; it is checked here, before the handler runs
- `FILTERED` the handler itself shows or changes only what the caller sees (`caller.sees(…)`)
- `ANY`      nothing in it belongs to a session
- `WHOLE`    it concerns the whole installation: a limited key is refused

A handler gets the caller as `caller: CallerHere`. What is not in the table is for nobody: 403.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Depends, Request

from wa_orchestrator.errors import Forbidden
from wa_orchestrator.http.asgi import Scope
from wa_orchestrator.model.caller import ALL_RIGHTS, Caller, Right


class Reach(StrEnum):
    SESSION = "session"
    FILTERED = "filtered"
    ANY = "any"
    WHOLE = "whole"


SESSION, FILTERED, ANY, WHOLE = Reach.SESSION, Reach.FILTERED, Reach.ANY, Reach.WHOLE
READ, SEND, MANAGE, ADMIN = (frozenset({right}) for right in (Right.READ, Right.SEND, Right.MANAGE, Right.ADMIN))
READ_OR_SEND = READ | SEND
SEND_OR_MANAGE = SEND | MANAGE
ANYBODY = ALL_RIGHTS  # any key that is valid


@dataclass(frozen=True)
class Needs:
    """One of `rights`; `reach` tells what it means for a key that is limited to sessions."""

    rights: frozenset[Right]
    reach: Reach
    audited: bool = True  # changing calls leave a line in the audit log; messages carry their sender themselves


TABLE: dict[str, Needs] = {
    # sessions
    "POST /sessions/provision": Needs(MANAGE, WHOLE),
    "GET /sessions": Needs(READ, FILTERED),
    "GET /sessions/{session_id}": Needs(READ, SESSION),
    "GET /sessions/{session_id}/status": Needs(READ, SESSION),
    "GET /sessions/{session_id}/events": Needs(READ, SESSION),
    "GET /sessions/{session_id}/qr": Needs(MANAGE, SESSION),
    "POST /sessions/{session_id}/pairing-code": Needs(MANAGE, SESSION),
    "POST /sessions/{session_id}/start": Needs(MANAGE, SESSION),
    "POST /sessions/{session_id}/restart": Needs(MANAGE, SESSION),
    "POST /sessions/{session_id}/stop": Needs(MANAGE, SESSION),
    "POST /sessions/{session_id}/logout": Needs(MANAGE, SESSION),
    "DELETE /sessions/{session_id}": Needs(MANAGE, SESSION),
    # what people wrote
    "GET /sessions/{session_id}/conversations": Needs(READ, SESSION),
    "GET /sessions/{session_id}/conversations/{chat}/messages": Needs(READ, SESSION),
    "POST /sessions/{session_id}/conversations/{chat}/read": Needs(SEND_OR_MANAGE, SESSION, audited=False),
    "GET /sessions/{session_id}/media/{media_id}": Needs(READ, SESSION),
    # pacing
    "GET /anti-ban/sessions/{session_id}/limits": Needs(READ, SESSION),
    "PUT /anti-ban/sessions/{session_id}/limits": Needs(MANAGE, SESSION),
    "DELETE /anti-ban/sessions/{session_id}/limits": Needs(MANAGE, SESSION),
    "GET /anti-ban/limits": Needs(READ, ANY),
    "PUT /anti-ban/limits": Needs(MANAGE, WHOLE),
    "DELETE /anti-ban/limits": Needs(MANAGE, WHOLE),
    # proxies: shared by all sessions
    "GET /proxies": Needs(READ, WHOLE),
    "POST /proxies": Needs(MANAGE, WHOLE),
    "POST /proxies/import": Needs(MANAGE, WHOLE),
    "GET /proxies/{proxy_id}": Needs(READ, WHOLE),
    "POST /proxies/{proxy_id}/check": Needs(MANAGE, WHOLE),
    "DELETE /proxies/{proxy_id}": Needs(MANAGE, WHOLE),
    # stock and alerts: of the whole installation
    "GET /inventory": Needs(READ, WHOLE),
    "GET /profiles": Needs(READ, WHOLE),
    "DELETE /profiles/{phone}": Needs(MANAGE, WHOLE),
    "POST /upload/proxies": Needs(MANAGE, WHOLE),
    "POST /upload/profiles": Needs(MANAGE, WHOLE),
    "GET /alerts": Needs(READ, WHOLE),
    "POST /alerts/test": Needs(MANAGE, WHOLE),
    # messages: who sends sees what became of it
    "POST /send": Needs(SEND, FILTERED, audited=False),
    "POST /send/bulk": Needs(SEND, FILTERED, audited=False),
    "GET /messages": Needs(READ, FILTERED),
    "GET /messages/dead": Needs(READ, FILTERED),
    "GET /messages/{message_id}": Needs(READ_OR_SEND, FILTERED),
    "POST /messages/{message_id}/cancel": Needs(SEND_OR_MANAGE, FILTERED),
    "DELETE /messages/{message_id}": Needs(SEND_OR_MANAGE, FILTERED),
    "POST /messages/{message_id}/redrive": Needs(SEND_OR_MANAGE, FILTERED),
    "POST /media": Needs(SEND, ANY),
    # numbers and events
    "GET /dashboard/stats": Needs(READ, WHOLE),
    "GET /dashboard/sessions": Needs(READ, FILTERED),
    "GET /events/stream": Needs(READ, FILTERED),
    "GET /events": Needs(READ, FILTERED),
    "GET /events/types": Needs(ANYBODY, ANY),
    "WS /ws": Needs(READ, FILTERED),
    # backups hold credentials: to make one is an operator's work, to carry one away or in is not
    "POST /backups/create": Needs(MANAGE, WHOLE),
    "GET /backups": Needs(READ, WHOLE),
    "GET /backups/operation": Needs(READ, WHOLE),
    "GET /backups/{backup_id}": Needs(READ, WHOLE),
    "GET /backups/{backup_id}/download": Needs(ADMIN, WHOLE),
    "POST /backups/{backup_id}/verify": Needs(MANAGE, WHOLE),
    "DELETE /backups/{backup_id}": Needs(ADMIN, WHOLE),
    "POST /backups/restore/{backup_id}": Needs(ADMIN, WHOLE),
    "POST /backups/upload": Needs(ADMIN, WHOLE),
    "POST /sessions/{session_id}/export": Needs(ADMIN, WHOLE),
    "POST /sessions/import": Needs(ADMIN, WHOLE),
    # webhooks: a limited key has those for its own sessions
    "GET /webhooks": Needs(MANAGE, FILTERED),
    "POST /webhooks": Needs(MANAGE, FILTERED),
    "GET /webhooks/{webhook_id}": Needs(MANAGE, FILTERED),
    "PATCH /webhooks/{webhook_id}": Needs(MANAGE, FILTERED),
    "DELETE /webhooks/{webhook_id}": Needs(MANAGE, FILTERED),
    "POST /webhooks/{webhook_id}/test": Needs(MANAGE, FILTERED),
    "GET /webhooks/{webhook_id}/dead": Needs(MANAGE, FILTERED),
    "POST /webhooks/{webhook_id}/dead/drop": Needs(MANAGE, FILTERED),
    "POST /webhooks/{webhook_id}/redrive": Needs(MANAGE, FILTERED),
    # keys and the audit log
    "GET /keys": Needs(ADMIN, WHOLE),
    "POST /keys": Needs(ADMIN, WHOLE),
    "GET /keys/self": Needs(ANYBODY, ANY),
    "GET /keys/{key_id}": Needs(ADMIN, WHOLE),
    "PATCH /keys/{key_id}": Needs(ADMIN, WHOLE),
    "POST /keys/{key_id}/rotate": Needs(ADMIN, WHOLE),
    "DELETE /keys/{key_id}": Needs(ADMIN, WHOLE),
    "GET /audit": Needs(ADMIN, WHOLE),
    # responsible sending
    "GET /suppression": Needs(READ, WHOLE),
    "GET /suppression/export": Needs(READ, WHOLE),
    "GET /suppression/{phone}": Needs(READ_OR_SEND, ANY),
    "POST /suppression": Needs(MANAGE, WHOLE),
    "POST /suppression/import": Needs(MANAGE, WHOLE),
    "DELETE /suppression/{phone}": Needs(MANAGE, WHOLE),
    "GET /recipients/{phone}": Needs(READ, WHOLE),
    "POST /recipients/{phone}/consent": Needs(SEND_OR_MANAGE, ANY),
    # the WAHA façade, where its address is not one of ours (waha/)
    "POST /sessions": Needs(MANAGE, WHOLE),
    "PUT /sessions/{session_id}": Needs(MANAGE, SESSION),
    "GET /sessions/{session_id}/me": Needs(READ, SESSION),
    "GET /{session_id}/auth/qr": Needs(MANAGE, SESSION),
    "POST /{session_id}/auth/request-code": Needs(MANAGE, SESSION),
    "POST /sendText": Needs(SEND, FILTERED, audited=False),
    "POST /sendImage": Needs(SEND, FILTERED, audited=False),
    "POST /sendFile": Needs(SEND, FILTERED, audited=False),
    "POST /sendVoice": Needs(SEND, FILTERED, audited=False),
    "POST /sendVideo": Needs(SEND, FILTERED, audited=False),
    "POST /sendLocation": Needs(SEND, FILTERED, audited=False),
    "POST /sendContactVcard": Needs(SEND, FILTERED, audited=False),
    "POST /sendPoll": Needs(SEND, FILTERED, audited=False),
    "PUT /reaction": Needs(SEND, FILTERED, audited=False),
    "POST /sendSeen": Needs(SEND, FILTERED, audited=False),
    "POST /startTyping": Needs(SEND, FILTERED, audited=False),
    "POST /stopTyping": Needs(SEND, FILTERED, audited=False),
    "GET /contacts/check-exists": Needs(READ_OR_SEND, SESSION),
    "GET /version": Needs(ANYBODY, ANY),
    "GET /ping": Needs(ANYBODY, ANY),
    "GET /waha/ping": Needs(ANYBODY, ANY),
    "GET /waha/health": Needs(ANYBODY, ANY),
    "GET /metrics": Needs(READ, WHOLE),  # METRICS_TOKEN and METRICS_OPEN let a scraper in without a key
    # the documents
    "GET /docs": Needs(ANYBODY, ANY),
    "GET /openapi.json": Needs(ANYBODY, ANY),
}

_PREFIXES = ("/api/v1", "/api", "/waha/api")


def table_key(method: str, path: str) -> str:
    """`GET`, `/api/v1/sessions/{session_id}` → the name of its line."""
    for prefix in _PREFIXES:
        if path.startswith(f"{prefix}/"):
            path = path.removeprefix(prefix)
            break
    return f"{'GET' if method == 'HEAD' else method} {path}"


def needs_of(method: str, path: str) -> Needs | None:
    return TABLE.get(table_key(method, path))


def check_right(caller: Caller, needs: Needs | None) -> None:
    """Raises Forbidden, saying which right is missing."""
    if needs is None:
        raise Forbidden
    if caller.rights.isdisjoint(needs.rights):
        wanted = " or ".join(f"`{right}`" for right in Right if right in needs.rights)
        raise Forbidden(
            f"This needs a key with the right {wanted}.",
            details={"needs": [right.value for right in Right if right in needs.rights]},
        )
    if caller.limited and needs.reach is Reach.WHOLE:
        raise Forbidden("This concerns the whole installation; this key is limited to some sessions.")


def check_named_sessions(
    caller: Caller, path_params: dict[str, Any], query: dict[str, str], *, needed: bool = False
) -> None:
    """The session that path or query name must be one of the caller's; `needed`: one must be named at all."""
    if not caller.limited:
        return
    named = (path_params.get("session_id"), path_params.get("session"), query.get("sessionId"), query.get("session"))
    for session_id in named:
        if session_id:
            caller.check_session(str(session_id))
    if needed and not any(named):
        raise Forbidden("This key is limited to sessions: name one of them.")


def keep_caller(scope: Scope, caller: Caller, *, template: str) -> None:
    """For the handler and for the audit log: who called what."""
    scope.setdefault("state", {}).update(caller=caller, template=template)


def caller_of(request: Request) -> Caller:
    found: Caller = request.scope["state"]["caller"]
    return found


CallerHere = Annotated[Caller, Depends(caller_of)]
