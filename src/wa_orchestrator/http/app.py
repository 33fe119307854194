"""Assembles the HTTP side."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException

from wa_orchestrator import __version__
from wa_orchestrator.dashboard.people import People
from wa_orchestrator.dashboard.router import dashboard_pages
from wa_orchestrator.errors import (
    InvalidBody,
    InvalidJson,
    MethodNotAllowed,
    NotFound,
    OrchestratorError,
)
from wa_orchestrator.http import (
    dashboard,
    limits,
    live,
    messages,
    proxies,
    send_routes,
    session_orders,
    sessions,
    system,
    worker_routes,
)
from wa_orchestrator.http.asgi import App, error_body, error_headers
from wa_orchestrator.http.auth import requires_key
from wa_orchestrator.http.docs import add_docs
from wa_orchestrator.http.gate import Gate
from wa_orchestrator.http.views import ErrorAnswer
from wa_orchestrator.rooms import GatewayRooms, Rooms

_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorAnswer} for code in (400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 503)
}
_DESCRIPTION = """Looks after many WhatsApp accounts: one isolated worker and one fixed exit address each.

Every call needs the key in `X-Api-Key`. Errors have one shape: `{error: {code, message, details?, requestId}}`."""


def build_app(rooms: Rooms, *, accepts: bool = True) -> App:
    """The whole HTTP side as one ASGI app; `accepts`: it takes messages too, as a gateway does."""
    people = People(store=rooms.store, settings=rooms.settings, clock=rooms.clock)
    api = _framework(
        rooms,
        people,
        (sessions.sessions_router(rooms), "/api", "/api/v1"),
        (session_orders.session_orders_router(rooms), "/api", "/api/v1"),
        (proxies.proxies_router(rooms), "/api/v1", "/api"),
        (messages.messages_router(rooms), "/api/v1", "/api"),
        (limits.limits_router(rooms), "/api/anti-ban", "/api/v1/anti-ban"),
        (dashboard.dashboard_router(rooms), "/api/v1", "/api"),
        (live.sse_router(rooms), "/api/v1", "/api"),
        *([] if accepts else [(_send_elsewhere(), "/api/v1", "/api")]),
    )
    api.include_router(live.websocket_router(rooms))
    api.include_router(dashboard_pages(rooms, people))
    _describe_plain_routes(api, worker_routes.openapi_paths(), _send_paths() if accepts else {})
    front: App = worker_routes.WorkerRoutes(
        api, intake=rooms.intake, claims=rooms.claims, outcomes=rooms.outcomes, media=rooms.media
    )
    return _behind_gate(front, rooms, people, accepts=accepts)


def build_gateway_app(rooms: GatewayRooms) -> App:
    """The HTTP side of a gateway alone: send, bulk, messages, health."""
    api = _framework(rooms, None, (messages.messages_router(rooms), "/api/v1", "/api"))

    @api.get("/", include_in_schema=False)
    async def front_door() -> RedirectResponse:
        return RedirectResponse("/docs")

    _describe_plain_routes(api, _send_paths())
    return _behind_gate(api, rooms, None, accepts=True)


def _send_elsewhere() -> APIRouter:
    """In place of the gateway where it does not run: says so, instead of a bare 404."""
    router = APIRouter(include_in_schema=False)

    @router.post("/send")
    @router.post("/send/bulk")
    async def elsewhere() -> None:
        raise NotFound("This server takes no messages (up --roles without gateway). Send them to a gateway.")

    return router


def _framework(rooms: GatewayRooms, people: People | None, *routers: tuple[APIRouter, str, str]) -> FastAPI:
    """Guarded routers (each with its two prefixes), health, documents, errors."""
    api = FastAPI(
        title="WhatsApp Orchestrator",
        version=__version__,
        description=_DESCRIPTION,
        responses=_ERRORS,
        docs_url=None,
        redoc_url=None,
    )
    guarded = APIRouter(dependencies=[Depends(requires_key(rooms.settings.api_key, people))])
    for router, prefix, other in routers:
        guarded.include_router(router, prefix=prefix)
        # both forms are served; the document shows one
        guarded.include_router(router, prefix=other, include_in_schema=False)
    api.include_router(guarded)
    api.include_router(system.system_router(rooms))

    add_docs(api)
    _handle_errors(api)
    return api


def _behind_gate(inner: App, rooms: GatewayRooms, people: People | None, *, accepts: bool) -> App:
    if accepts:
        inner = send_routes.SendRoutes(
            inner,
            gateway=rooms.gateway,
            clock=rooms.clock,
            api_key=rooms.settings.api_key,
            people=people,
            max_body_bytes=rooms.settings.max_body_bytes,
        )
    return Gate(inner, max_body_bytes=rooms.settings.max_body_bytes, larger=_larger_bodies(rooms))


def _larger_bodies(rooms: GatewayRooms) -> dict[str, int | None]:
    """Routes with bounds of their own; None: a stream that is checked line by line."""
    paths = {f"{prefix}/{path}": bound for prefix in ("/api", "/api/v1")
             for path, bound in (("send/bulk", None), ("media", rooms.settings.max_media_bytes))}  # fmt: skip
    return dict(paths)


def _answer(request: Request, error: OrchestratorError) -> JSONResponse:
    request_id = request.scope.get("state", {}).get("request_id", "")
    headers = {name.decode(): value.decode() for name, value in error_headers(error)}
    return JSONResponse(error_body(error, request_id), status_code=error.status, headers=headers)


def _handle_errors(api: FastAPI) -> None:
    @api.exception_handler(OrchestratorError)
    async def ours(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, OrchestratorError)  # noqa: S101 - narrows the type
        return _answer(request, error)

    @api.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError)  # noqa: S101 - narrows the type
        return _answer(request, _explained(error))

    @api.exception_handler(HTTPException)
    async def http(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException)  # noqa: S101 - narrows the type
        if isinstance(error.__cause__, OrchestratorError):  # ours, met while FastAPI read the body
            return _answer(request, error.__cause__)
        kinds: dict[int, type[OrchestratorError]] = {404: NotFound, 405: MethodNotAllowed}
        answer = _answer(request, kinds.get(error.status_code, InvalidJson)())
        if error.headers:
            answer.headers.update(error.headers)
        return answer


def _explained(error: RequestValidationError) -> OrchestratorError:
    """Pydantic's findings as one sentence per field; never the value that was sent: it may be a secret."""
    found = error.errors()
    if any(item["type"] == "json_invalid" for item in found):
        return InvalidJson()
    fields = [
        {
            "field": ".".join(str(part) for part in item["loc"][1:]) or str(item["loc"][0]),
            "problem": "there is no such field" if item["type"] == "extra_forbidden" else item["msg"],
        }
        for item in found[:20]
    ]
    first = fields[0]
    return InvalidBody(f"{first['field']}: {first['problem']}.", details={"field": first["field"], "fields": fields})


def _send_paths() -> dict[str, object]:
    return send_routes.openapi_paths(worker_routes.error_answers(), worker_routes.schema_of)


def _describe_plain_routes(api: FastAPI, *paths: dict[str, object]) -> None:
    """The document also shows what is served in front of the framework."""
    original = api.openapi

    def with_plain_routes() -> dict[str, Any]:
        document = original()
        for more in paths:
            document["paths"].update(more)
        return document

    api.openapi = with_plain_routes  # type: ignore[method-assign]
