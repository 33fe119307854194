"""The API's documentation page, with its assets from our own packages: it works without the internet.

Like every page it is for those who have a key or are signed in; a browser that is not is led to the sign-in.
"""

from __future__ import annotations

from typing import Any

from fastapi import Request
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from swagger_ui_bundle import swagger_ui_path  # type: ignore[import-untyped]

from wa_orchestrator.errors import Unauthorized
from wa_orchestrator.http.auth import Door
from wa_orchestrator.http.late_routes import Api, Routes

_ASSETS = "/docs-assets"


def add_docs(api: Api, door: Door) -> None:
    router = Routes(include_in_schema=False)

    @router.get("/docs")
    async def docs(request: Request) -> Response:
        try:
            await door.let_in(request.scope, template="/docs")
        except Unauthorized:
            if door.people is None:
                raise
            return RedirectResponse("/sign-in?next=/docs", 307)
        page: HTMLResponse = get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="WhatsApp Orchestrator: API",
            swagger_js_url=f"{_ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{_ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{_ASSETS}/favicon-32x32.png",
        )
        return page

    @router.get("/openapi.json")
    async def document(request: Request) -> Any:
        await door.let_in(request.scope, template="/openapi.json")
        return JSONResponse(api.openapi())

    api.place(router, "")
    api.mount(_ASSETS, StaticFiles(directory=swagger_ui_path), name="docs-assets")
