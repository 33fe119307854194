"""Proxies over HTTP: add, import, list, check, remove."""

from __future__ import annotations

from typing import Annotated

from fastapi import Body, Request, Response

from wa_orchestrator.errors import BadRequest, ProxyNotFound
from wa_orchestrator.http import views
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.sessions import proxy_in
from wa_orchestrator.proxies.loading import parse_lines
from wa_orchestrator.rooms import Rooms

_LINES = {"requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}}}


def proxies_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["proxies"])
    slots = rooms.settings.max_sessions_per_proxy

    async def known(proxy_id: str) -> views.ProxyView:
        proxy = await rooms.store.proxies.get(proxy_id)
        if proxy is None:
            raise ProxyNotFound
        return views.proxy_view(proxy, slots=slots)

    @router.get("/proxies", summary="List proxies; never their passwords")
    async def list_proxies() -> views.ProxyList:
        found = await rooms.store.proxies.all()
        return views.ProxyList(proxies=[views.proxy_view(p, slots=slots) for p in found], total=len(found))

    @router.post("/proxies", status_code=201, responses={200: {"model": views.ProxyView}}, summary="Add a proxy")
    async def add(body: Annotated[views.ProxyBody, Body()], response: Response) -> views.ProxyView:
        """201 for a new one, 200 for a known one (a changed password is taken over)."""
        address = proxy_in(body.proxy, field="proxy")
        if not await rooms.pool.add(address):
            response.status_code = 200
        return await known(address.proxy_id)

    @router.post("/proxies/import", openapi_extra=_LINES, summary="Add many proxies, one per line")
    async def import_lines(request: Request) -> views.ImportView:
        """socks5h://user:pass@host:port, host:port:user:pass or user:pass@host:port; # begins a comment."""
        try:
            text = (await request.body()).decode()
        except UnicodeDecodeError:
            raise BadRequest("The body is not UTF-8 text.") from None
        parsed = parse_lines(text)
        added = [await rooms.pool.add(address) for address in parsed.good]
        return views.ImportView(
            added=sum(added),
            known=len(added) - sum(added),
            errors=[views.LineErrorView(line=e.line, message=e.message) for e in parsed.errors],
            proxies=[a.proxy_id for a in parsed.good],
        )

    @router.get("/proxies/{proxy_id}", summary="Look at a proxy")
    async def get(proxy_id: str) -> views.ProxyView:
        return await known(proxy_id)

    @router.post("/proxies/{proxy_id}/check", summary="Probe a proxy now")
    async def check(proxy_id: str) -> views.CheckedProxyView:
        proxy, result = await rooms.pool.check(proxy_id)
        return views.CheckedProxyView(
            **views.proxy_view(proxy, slots=slots).model_dump(by_alias=False),
            check=views.CheckView(
                ok=result.ok,
                kind=result.kind.value if result.kind else None,
                text=result.text,
                latency_ms=result.latency_ms,
            ),
        )

    @router.delete("/proxies/{proxy_id}", responses={202: {"model": views.RemovedProxyView}}, summary="Remove a proxy")
    async def remove(proxy_id: str, response: Response, drain: bool = False) -> views.RemovedProxyView:
        """With sessions on it only with drain=true, which moves them; 202 while some wait for another proxy."""
        left = await rooms.pool.remove(proxy_id, drain=drain)
        response.status_code = 202 if left else 200
        return views.RemovedProxyView(id=proxy_id, removed=not left, moving=left)

    return router
