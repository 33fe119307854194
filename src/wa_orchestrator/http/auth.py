"""Who may call: the API key, in any of the headers that clients use, or a signed-in browser. Never in the URL."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

from fastapi import Request, Security
from fastapi.security import APIKeyHeader

from wa_orchestrator.dashboard.people import People
from wa_orchestrator.errors import Unauthorized
from wa_orchestrator.http.asgi import header_map

_shown = APIKeyHeader(name="X-Api-Key", auto_error=False, description="Also as `apikey` or `Authorization: Bearer`.")


def given_key(headers: dict[str, str]) -> str:
    bearer = headers.get("authorization", "")
    return (
        headers.get("x-api-key")
        or headers.get("apikey")
        or (bearer[7:].strip() if bearer.lower().startswith("bearer ") else "")
    )


def check_key(headers: dict[str, str], api_key: str) -> None:
    given = given_key(headers)
    if not given:
        raise Unauthorized
    if not hmac.compare_digest(given.encode("utf-8", "replace"), api_key.encode()):
        raise Unauthorized("The API key is not valid.")


async def check_caller(headers: dict[str, str], method: str, *, api_key: str, people: People | None) -> str:
    """Who it is, for the audit trail: `api`, or a signed-in person. A cookie counts only where no key is given."""
    if people and "cookie" in headers and not given_key(headers):
        person = await people.caller(headers, method)
        if person:
            return person.by
    check_key(headers, api_key)
    return "api"


def requires_key(api_key: str, people: People | None = None) -> Callable[..., Awaitable[None]]:
    async def check(request: Request, _shown_in_docs: str | None = Security(_shown)) -> None:
        await check_caller(header_map(request.scope), request.method, api_key=api_key, people=people)

    return check
