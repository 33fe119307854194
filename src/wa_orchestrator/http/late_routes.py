"""Routes that the framework looks at when they are called first, not when the server starts.

FastAPI reads a handler's signature and makes models of its parameters and its answer: about a millisecond, again for
every prefix, and most of it for addresses nobody calls. Here a handler is read once, at its first call, for all its
addresses; the document reads those it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match, Route

from wa_orchestrator.http.asgi import Receive, Scope, Send


class Routes(APIRouter):
    """Takes handlers as the framework's router does; `Api.place` gives them addresses."""

    def __init__(self, *, tags: Sequence[str] = (), include_in_schema: bool = True) -> None:
        super().__init__(tags=list(tags), include_in_schema=include_in_schema)
        self.kept: list[tuple[str, Callable[..., Any], dict[str, Any]]] = []

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **given: Any) -> None:
        self.kept.append((path, endpoint, given))


# with its prefixes: all are served, the document shows the first
Placed = tuple[Routes, *tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Handler:
    """One handler with all that was said of it; an ASGI app of its own."""

    path: str
    endpoint: Callable[..., Any]
    given: dict[str, Any]
    tags: list[Any]
    guards: list[Depends]

    @property
    def methods(self) -> set[str]:
        return {method.upper() for method in self.given.get("methods") or ["GET"]}

    def read(self, **more: Any) -> APIRoute:
        """The framework's own route."""
        router = APIRouter(tags=self.tags, dependencies=self.guards, **more)
        router.add_api_route(self.path, self.endpoint, **self.given)
        (route,) = router.routes
        assert isinstance(route, APIRoute)  # noqa: S101 - narrows the type
        return route

    @cached_property
    def _served(self) -> APIRoute:
        return self.read()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._served.app(scope, receive, send)


class LateRoute(Route):
    """One address of a handler."""

    def __init__(self, prefix: str, handler: Handler, *, shown: bool) -> None:
        super().__init__(prefix + handler.path, handler, methods=handler.methods, include_in_schema=shown)
        # as the framework's own: HEAD is a method like others, not part of GET
        self.methods = handler.methods
        self.prefix = prefix
        self.handler = handler

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Tells the guard the address as it was registered: the right is found by it."""
        match, found = super().matches(scope)
        return match, {**found, "route": self} if match is not Match.NONE else found


class Api(FastAPI):
    """The framework, with late routes and a document that shows them."""

    def __init__(self, *, title: str, version: str, description: str, answers: dict[int | str, dict[str, Any]]) -> None:
        # no addresses of its own for the document: it is served behind the door, see docs.py
        super().__init__(title=title, version=version, description=description, docs_url=None, redoc_url=None,
                         openapi_url=None)  # fmt: skip
        self._answers = answers
        self._plain: dict[str, object] = {}

    def place(self, routes: Routes, *prefixes: str, guards: Sequence[Depends] = ()) -> None:
        """All are served; the document shows the first."""
        handlers = [Handler(*kept, tags=routes.tags, guards=list(guards)) for kept in routes.kept]
        for prefix in prefixes:
            shown = routes.include_in_schema and prefix == prefixes[0]
            self.router.routes.extend(LateRoute(prefix, handler, shown=shown) for handler in handlers)

    def describe(self, paths: dict[str, object]) -> None:
        """What is served in front of the framework, for the document."""
        self._plain |= paths

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            shown = [self._in_document(route) for route in self.router.routes]
            self.openapi_schema = get_openapi(
                title=self.title, version=self.version, description=self.description, routes=shown
            )
            self.openapi_schema["paths"].update(self._plain)
        return self.openapi_schema

    def _in_document(self, route: BaseRoute) -> BaseRoute:
        if isinstance(route, LateRoute) and route.include_in_schema:
            return route.handler.read(prefix=route.prefix, responses=self._answers)
        return route
