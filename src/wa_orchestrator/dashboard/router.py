"""Assembles the dashboard: the door, the pages, the scan links, the assets."""

from __future__ import annotations

from functools import cache

from fastapi.responses import Response

from wa_orchestrator.dashboard import access_pages, pages
from wa_orchestrator.dashboard.alert_pages import add_alert_pages
from wa_orchestrator.dashboard.backup_pages import add_backup_pages
from wa_orchestrator.dashboard.guard import GuardedPages
from wa_orchestrator.dashboard.inbox_pages import add_inbox_pages
from wa_orchestrator.dashboard.knowing import Knowing
from wa_orchestrator.dashboard.people import People
from wa_orchestrator.dashboard.rendering import STATIC, Rendering
from wa_orchestrator.dashboard.scan_pages import scan_link_router
from wa_orchestrator.dashboard.scanning import ScanLinks
from wa_orchestrator.dashboard.sign_in_pages import sign_in_router
from wa_orchestrator.dashboard.webhook_pages import add_webhook_pages
from wa_orchestrator.errors import NotFound
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.rooms import Rooms

_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}


def dashboard_pages(rooms: Rooms, people: People) -> list[Routes]:
    rendering = Rendering(settings=rooms.settings)
    knowing, links = Knowing(rooms), ScanLinks(rooms)
    guarded = GuardedPages(people, rendering)
    pages.add_session_pages(guarded, rooms, knowing, rendering)
    pages.add_scan_pages(guarded, rooms, knowing, rendering, links)
    pages.add_message_pages(guarded, rooms, knowing)
    pages.add_proxy_pages(guarded, rooms, knowing)
    pages.add_anti_ban_pages(guarded, rooms, knowing)
    pages.add_watching_pages(guarded, rooms, knowing, rendering)
    access_pages.add_suppression_pages(guarded, rooms)
    access_pages.add_key_pages(guarded, rooms)
    access_pages.add_audit_pages(guarded, rooms)
    add_alert_pages(guarded, rooms, rendering)
    add_backup_pages(guarded, rooms)
    add_webhook_pages(guarded, rooms)
    add_inbox_pages(guarded, rooms, knowing)
    return [
        sign_in_router(people, rendering, rooms.settings),
        guarded.router,
        scan_link_router(rooms, links, rendering),
        _assets(),
    ]


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """All assets, a quarter of a megabyte: served from memory, so that no path of a caller meets the disk."""
    return {
        file.relative_to(STATIC).as_posix(): (file.read_bytes(), _TYPES[file.suffix])
        for file in STATIC.rglob("*")
        if file.suffix in _TYPES
    }


def _assets() -> Routes:
    router = Routes(include_in_schema=False)

    @router.get("/assets/{version}/{path:path}")
    async def asset(version: str, path: str) -> Response:
        """The version is part of the address, so a browser may keep the file for ever."""
        if path not in _files():
            raise NotFound
        content, kind = _files()[path]
        return Response(content, media_type=kind, headers={"Cache-Control": "public, max-age=31536000, immutable"})

    return router
