"""Who may call: the API key, in any of the headers that clients use. Never in the URL."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

from fastapi import Request, Security
from fastapi.security import APIKeyHeader

from wa_orchestrator.errors import Unauthorized

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


def requires_key(api_key: str) -> Callable[..., Awaitable[None]]:
    async def check(request: Request, _shown_in_docs: str | None = Security(_shown)) -> None:
        check_key({k.decode("latin-1"): v.decode("latin-1") for k, v in request.scope["headers"]}, api_key)

    return check
