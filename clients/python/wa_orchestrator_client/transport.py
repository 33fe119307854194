"""How a call becomes an HTTP request and an answer becomes a value or an error; shared by both clients. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx

from wa_orchestrator_client.calls import Call
from wa_orchestrator_client.errors import api_error
from wa_orchestrator_client.retrying import retry_after_s

T = TypeVar("T")


def request_of(call: Call[Any]) -> dict[str, Any]:
    """What httpx needs to know."""
    request: dict[str, Any] = {"method": call.method, "url": call.path, "headers": call.headers}
    if call.params:
        request["params"] = call.params
    if call.json is not None:
        request["json"] = call.json
    if call.content is not None:
        request["content"] = call.content
    if call.timeout_s is not None:
        request["timeout"] = call.timeout_s
    return request


def read_answer(call: Call[T], response: httpx.Response) -> T:
    """The answer as `call` reads it; raises ApiError."""
    if response.is_success:
        return call.reads(response.content if call.picture else response.json(), response.headers)
    try:
        body = response.json()
    except ValueError:  # a proxy in between answered, with a page of its own
        body = None
    raise api_error(response.status_code, body, retry_after_s=retry_after_s(response.headers))


def headers_of(api_key: str) -> dict[str, str]:
    return {"X-Api-Key": api_key, "Accept": "application/json"}
