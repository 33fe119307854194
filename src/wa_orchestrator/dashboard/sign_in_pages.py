"""The door: signing in and out."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from wa_orchestrator.dashboard.people import COOKIE, People, audit_name
from wa_orchestrator.dashboard.rendering import Rendering, page_headers
from wa_orchestrator.errors import CsrfFailed, TooManySignIns, Unauthorized
from wa_orchestrator.http.asgi import header_map
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.rights import keep_caller
from wa_orchestrator.model.caller import Caller
from wa_orchestrator.settings import Settings


def sign_in_router(people: People, rendering: Rendering, settings: Settings) -> Routes:
    router = Routes(include_in_schema=False)

    @router.get("/sign-in")
    async def show(request: Request) -> Response:
        if await people.who(header_map(request.scope)):
            return RedirectResponse(_inside(request.query_params.get("next", "")), 303, headers=page_headers())
        return rendering.page(request, "sign_in.html", person=None, problem="", name="")

    @router.post("/sign-in")
    async def sign_in(request: Request) -> Response:
        _check_same_site(request)
        form = await _form(request)
        name, password = form.get("name", "").strip()[:64], form.get("password", "")[:1024]
        address = request.client.host if request.client else ""
        try:
            ticket = await people.sign_in(name=name, password=password, address=address)
        except (Unauthorized, TooManySignIns) as error:
            answer: Response = rendering.page(
                request, "sign_in.html", person=None, status=error.status, problem=error.code, name=name
            )
            if error.retry_after_s:
                answer.headers["Retry-After"] = str(error.retry_after_s)
            return answer
        keep_caller(request.scope, Caller(by=audit_name(name)), template="/sign-in")
        answer = RedirectResponse(_inside(request.query_params.get("next", "")), 303, headers=page_headers())
        answer.set_cookie(
            COOKIE,
            ticket,
            max_age=settings.sign_in_hours * 3600,
            httponly=True,
            samesite="lax",
            secure=request.url.scheme == "https",
        )
        return answer

    @router.post("/sign-out")
    async def sign_out(request: Request) -> Response:
        person = await people.who(header_map(request.scope))
        if person:
            people.check_csrf(person, (await _form(request)).get("csrf", ""))
            await people.sign_out(person)
            keep_caller(request.scope, Caller(by=person.by), template="/sign-out")
        answer = RedirectResponse("/sign-in", 303, headers=page_headers())
        answer.delete_cookie(COOKIE)
        return answer

    return router


async def _form(request: Request) -> dict[str, str]:
    body = (await request.body()).decode("utf-8", "replace")
    return {name: values[-1] for name, values in parse_qs(body, keep_blank_values=True, max_num_fields=20).items()}


def _inside(path: str) -> str:
    """Only to our own pages: nobody is led elsewhere after signing in."""
    parts = urlsplit(path)
    safe = path.startswith("/") and not path.startswith(("//", "/\\")) and not parts.scheme and not parts.netloc
    return path if safe and path.isprintable() and "\\" not in path else "/"


def _check_same_site(request: Request) -> None:
    """A page of another site must not sign its visitors in here."""
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin", "")
    foreign = origin not in {"", "null"} and urlsplit(origin).netloc != request.headers.get("host", "")
    if site not in {"same-origin", "none"} or foreign:
        raise CsrfFailed
