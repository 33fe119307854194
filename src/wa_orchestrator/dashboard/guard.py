"""Stands before every page: whoever is not signed in is led to the door, and errors are told on a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from wa_orchestrator.dashboard.people import People, Person
from wa_orchestrator.dashboard.rendering import Rendering, page_headers
from wa_orchestrator.errors import OrchestratorError, Unauthorized, Unavailable
from wa_orchestrator.http.asgi import header_map
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import keep_caller
from wa_orchestrator.model.caller import Caller

View = Callable[[Request, Person], Awaitable[dict[str, Any]]]
Action = Callable[[Request, Person], Awaitable[Any]]


class GuardedPages:
    """Registers pages, parts of pages and actions; none of them can be reached without a sign-in."""

    def __init__(self, people: People, rendering: Rendering) -> None:
        self.router = Routes(include_in_schema=False)
        self._people = people
        self._rendering = rendering

    def page(self, path: str, template: str) -> Callable[[View], View]:
        """A whole page; the view gives its values."""

        def register(view: View) -> View:
            async def answer(request: Request) -> Response:
                try:
                    person = await self._people.who(header_map(request.scope))
                except Unavailable as error:
                    return self._rendering.page(request, "away.html", person=None, status=error.status)
                if person is None:
                    here = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                    return RedirectResponse(f"/sign-in?next={quote(here)}", 307, headers=page_headers())
                try:
                    values = await view(request, person)
                except OrchestratorError as error:
                    return self._rendering.page(request, "error.html", person=person, status=error.status, error=error)
                return self._rendering.page(request, template, person=person, **values)

            self.router.get(path, name=path)(answer)
            return view

        return register

    def part(self, path: str, template: str) -> Callable[[View], View]:
        """A piece of HTML that an open page asks for."""

        def register(view: View) -> View:
            async def answer(request: Request) -> Response:
                values = await view(request, await self._signed_in(request))
                return self._rendering.part(request, template, **values)

            self.router.get(path, name=path)(answer)
            return view

        return register

    def data(self, path: str, *, method: str = "GET") -> Callable[[Action], Action]:
        """JSON that an open page asks for; what changes something needs the page's CSRF token."""

        def register(action: Action) -> Action:
            async def answer(request: Request) -> Any:
                person = await self._signed_in(request)
                keep_caller(request.scope, Caller(by=person.by), template=path)
                return await action(request, person)

            self.router.add_api_route(path, answer, methods=[method], name=path, response_model=None)
            return action

        return register

    async def _signed_in(self, request: Request) -> Person:
        person = await self._people.caller(header_map(request.scope), request.method)
        if person is None:
            raise Unauthorized("Sign in first.")
        return person
