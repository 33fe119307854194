"""Assembles the HTTP side."""

from __future__ import annotations

from typing import Any

from fastapi import Depends, FastAPI, Request
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
    alerts,
    audit,
    backups,
    dashboard,
    events,
    inbound,
    inventory,
    keys,
    limits,
    live,
    messages,
    proxies,
    recipients,
    send_routes,
    session_orders,
    sessions,
    suppression,
    system,
    upload,
    webhooks,
    worker_routes,
)
from wa_orchestrator.http.asgi import App, error_body, error_headers
from wa_orchestrator.http.audit_trail import AuditTrail
from wa_orchestrator.http.auth import Door, requires_right
from wa_orchestrator.http.docs import add_docs
from wa_orchestrator.http.forwarded import Forwarded
from wa_orchestrator.http.gate import Gate
from wa_orchestrator.http.late_routes import Api, Placed, Routes
from wa_orchestrator.http.unexpected import told_to_caller
from wa_orchestrator.http.views import ErrorAnswer
from wa_orchestrator.rooms import GatewayRooms, Rooms
from wa_orchestrator.waha.routes import waha_gateway_routers, waha_health_router, waha_routers
from wa_orchestrator.waha.slashes import WithoutEndingSlash
from wa_orchestrator.worker_api.uploads import InboundUploads

_ERRORS: dict[int | str, dict[str, Any]] = {
    code: {"model": ErrorAnswer} for code in (400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 503)
}
_DESCRIPTION = """Looks after many WhatsApp accounts: one isolated worker and one fixed exit address each.

Every call needs the key in `X-Api-Key`. Errors have one shape: `{error: {code, message, details?, requestId}}`."""


def build_app(rooms: Rooms, *, accepts: bool = True) -> App:
    """The whole HTTP side as one ASGI app; `accepts`: it takes messages too, as a gateway does."""
    people = People(store=rooms.store, settings=rooms.settings, clock=rooms.clock)
    door = Door(store=rooms.store, settings=rooms.settings, clock=rooms.clock, people=people)
    api = _framework(
        rooms,
        door,
        (sessions.sessions_router(rooms), "/api", "/api/v1"),
        (session_orders.session_orders_router(rooms), "/api", "/api/v1"),
        (proxies.proxies_router(rooms), "/api/v1", "/api"),
        (messages.messages_router(rooms), "/api/v1", "/api"),
        (limits.limits_router(rooms), "/api/anti-ban", "/api/v1/anti-ban"),
        (dashboard.dashboard_router(rooms), "/api/v1", "/api"),
        (live.sse_router(rooms, door), "/api/v1", "/api"),
        (events.events_router(rooms), "/api/v1", "/api"),
        (webhooks.webhooks_router(rooms), "/api/v1", "/api"),
        (backups.backups_router(rooms), "/api/v1", "/api"),
        (inbound.inbound_router(rooms), "/api/v1", "/api"),
        (keys.keys_router(rooms, door.ring), "/api/v1", "/api"),
        (audit.audit_router(rooms), "/api/v1", "/api"),
        (alerts.alerts_router(rooms), "/api/v1", "/api"),
        (inventory.inventory_router(rooms), "/api/v1", "/api"),
        (upload.upload_router(rooms), "", "/api/v1", "/api"),
        (suppression.suppression_router(rooms), "/api/v1", "/api"),
        (recipients.recipients_router(rooms), "/api/v1", "/api"),
        *([] if accepts else [(_send_elsewhere(), "/api/v1", "/api")]),
        *waha_routers(rooms, accepts=accepts),
    )
    api.include_router(live.websocket_router(rooms, door))
    for pages in dashboard_pages(rooms, people):
        api.place(pages, "")
    api.describe(worker_routes.openapi_paths())
    if accepts:
        api.describe(_send_paths())
    audited = Forwarded(AuditTrail(api, rooms.store))
    front: App = worker_routes.WorkerRoutes(
        audited, intake=rooms.intake, claims=rooms.claims, outcomes=rooms.outcomes, media=rooms.media,
        inbound=InboundUploads(store=rooms.store, intake=rooms.intake, files=rooms.inbound_files),
    )  # fmt: skip
    return _behind_gate(front, rooms, door, accepts=accepts)


def build_gateway_app(rooms: GatewayRooms) -> App:
    """The HTTP side of a gateway alone: send, bulk, messages, health."""
    door = Door(store=rooms.store, settings=rooms.settings, clock=rooms.clock)
    api = _framework(rooms, door, (messages.messages_router(rooms), "/api/v1", "/api"), *waha_gateway_routers(rooms))

    @api.get("/", include_in_schema=False)
    async def front_door() -> RedirectResponse:
        return RedirectResponse("/docs")

    api.describe(_send_paths())
    return _behind_gate(Forwarded(AuditTrail(api, rooms.store)), rooms, door, accepts=True)


def _send_elsewhere() -> Routes:
    """In place of the gateway where it does not run: says so, instead of a bare 404."""
    router = Routes(include_in_schema=False)

    @router.post("/send")
    @router.post("/send/bulk")
    async def elsewhere() -> None:
        raise NotFound("This server takes no messages (up --roles without gateway). Send them to a gateway.")

    return router


def _framework(rooms: GatewayRooms, door: Door, *placed: Placed) -> Api:
    """Guarded routes (each with its prefixes), health, documents, errors."""
    api = Api(title="WhatsApp Orchestrator", version=__version__, description=_DESCRIPTION, answers=_ERRORS)
    guard = requires_right(door)
    guards = [Depends(guard)]
    for routes, *prefixes in placed:
        api.place(routes, *prefixes, guards=guards)
    api.place(waha_health_router(rooms), "", guards=guards)
    api.place(system.system_router(rooms, guard), "")

    add_docs(api, door)
    _handle_errors(api)
    return api


def _behind_gate(inner: App, rooms: GatewayRooms, door: Door, *, accepts: bool) -> App:
    inner = WithoutEndingSlash(inner)
    if accepts:
        inner = send_routes.SendRoutes(
            inner,
            gateway=rooms.gateway,
            clock=rooms.clock,
            door=door,
            max_body_bytes=rooms.settings.max_body_bytes,
        )
    return Gate(inner, max_body_bytes=rooms.settings.max_body_bytes, larger=_larger_bodies(rooms))


def _larger_bodies(rooms: GatewayRooms) -> dict[str, int | None]:
    """Routes with bounds of their own; None: a stream that is checked line by line."""
    bounds = {"send/bulk": None, "media": rooms.settings.max_media_bytes, "backups/upload": None}
    return {f"{prefix}/{path}": bound for prefix in ("/api", "/api/v1") for path, bound in bounds.items()}


def _answer(request: Request, error: OrchestratorError) -> JSONResponse:
    state = request.scope.setdefault("state", {})
    request_id = state.get("request_id", "")
    state["error_code"] = error.code
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

    @api.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        # answered here, in the form of all errors, and raised again by the framework: the gate writes it to the log
        return _answer(request, told_to_caller(error))


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
