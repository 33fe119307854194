"""Who may call: an API key, in any of the headers that clients use, or a signed-in browser. Never in the URL."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from fastapi import Request, Security
from fastapi.security import APIKeyHeader

from wa_orchestrator.clock import Clock
from wa_orchestrator.dashboard.people import People
from wa_orchestrator.errors import OrchestratorError, StoreUnavailable, Unauthorized
from wa_orchestrator.http.asgi import Scope, header_map
from wa_orchestrator.http.key_ring import KeyRing
from wa_orchestrator.http.rights import Reach, check_named_sessions, check_right, keep_caller, needs_of
from wa_orchestrator.model.caller import Caller
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

# open streams look this often whether their key is still good
_LOOK_AGAIN_S = 3.0

_shown = APIKeyHeader(name="X-Api-Key", auto_error=False, description="Also as `apikey` or `Authorization: Bearer`.")


def given_key(headers: dict[str, str]) -> str:
    bearer = headers.get("authorization", "")
    return (
        headers.get("x-api-key")
        or headers.get("apikey")
        or (bearer[7:].strip() if bearer.lower().startswith("bearer ") else "")
    )


class Door:
    """Tells who stands there. One per process; `people` is None where nobody can sign in."""

    def __init__(self, *, store: Store, settings: Settings, clock: Clock, people: People | None = None) -> None:
        self.ring = KeyRing(store=store, clock=clock, first_key=settings.api_key)
        self.people = people

    async def caller(self, headers: dict[str, str], method: str) -> Caller:
        """A key's or a person's rights; a cookie counts only where no key is given. Raises Unauthorized."""
        given = given_key(headers)
        if given:
            return await self.ring.caller(given)
        if self.people and "cookie" in headers:
            person = await self.people.caller(headers, method)
            if person:
                return Caller(by=person.by)
        raise Unauthorized

    async def let_in(self, scope: Scope, *, template: str) -> Caller:
        """The caller, once the table of rights allows this call; kept for the handler and the audit log."""
        method: str = scope["method"]
        caller = await self.caller(header_map(scope), method)
        # kept before the rights are looked at: a refusal is in the audit log too
        keep_caller(scope, caller, template=template)
        check_right(caller, needs_of(method, template))
        await self.ring.take_turn(caller)
        return caller


class Welcome:
    """Whether who listens to a stream may still do so: a key that is revoked ends its open streams too."""

    def __init__(self, door: Door, headers: dict[str, str], caller: Caller) -> None:
        self._door = door
        self._headers = headers
        self._caller = caller
        self._looked_at = time.monotonic()

    async def over(self) -> bool:
        """Looks again every few seconds, however often it is asked."""
        if time.monotonic() - self._looked_at < _LOOK_AGAIN_S:
            return False
        self._looked_at = time.monotonic()
        try:
            return await self._door.caller(self._headers, "GET") != self._caller
        except StoreUnavailable:
            return False
        except OrchestratorError:
            return True


def requires_right(door: Door) -> Callable[..., Awaitable[None]]:
    """Stands before every route of the framework that is not open to all."""

    async def check(request: Request, _shown_in_docs: str | None = Security(_shown)) -> None:
        caller = await door.let_in(request.scope, template=template_of(request.scope))
        needs = needs_of(request.method, request.scope["state"]["template"])
        of_session = needs is not None and needs.reach is Reach.SESSION
        check_named_sessions(caller, request.path_params, dict(request.query_params), needed=of_session)

    return check


def template_of(scope: Scope) -> str:
    """`/api/v1/sessions/{session_id}`: the path as it was registered."""
    path: str = scope["route"].path
    return path
