"""Backups over HTTP: make, list, verify, download, restore, delete; export and import of one session."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Body, Request
from fastapi.responses import FileResponse
from pydantic import Field, StringConstraints

from wa_orchestrator.backups.room import BackupRoom
from wa_orchestrator.backups.uploading import save_upload
from wa_orchestrator.http import views
from wa_orchestrator.http.late_routes import Routes
from wa_orchestrator.http.sessions import proxy_in
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.rooms import Rooms

_FILE = {"requestBody": {"required": True, "content": {"application/octet-stream": {"schema": {"type": "string"}}}}}
_Passphrase = Annotated[str, StringConstraints(max_length=1000)]
_SessionId = Annotated[str, StringConstraints(max_length=64)]


class VerifyBody(views.Body):
    passphrase: _Passphrase = Field(default="", description="Of an encrypted backup; else BACKUP_PASSPHRASE")


class RestoreBody(VerifyBody):
    sessions: list[_SessionId] = Field(default_factory=list, max_length=10_000, description="Only these; empty: all")
    force: bool = Field(default=False, description="Also sessions whose live keys are newer than the backup")


class ImportBody(VerifyBody):
    backup_id: Annotated[str, StringConstraints(max_length=200)] = Field(description="The uploaded export")
    session_id: _SessionId | None = Field(default=None, description="Which one, if the file holds several")
    proxy: Annotated[str, StringConstraints(max_length=1000)] | None = Field(
        default=None, description="Another proxy than the one it had: socks5h://user:pass@host:port, or an id"
    )


def backups_router(rooms: Rooms) -> Routes:
    router = Routes(tags=["backups"])
    room = rooms.backups

    @router.post("/backups/create", status_code=202, summary="Make a backup of all sessions")
    async def create() -> dict[str, Any]:
        """202 when it has begun; `GET /api/v1/backups/operation` shows its progress and result."""
        return (await room.order_backup()).view()

    @router.get("/backups", summary="List backups, newest first")
    async def list_backups() -> dict[str, Any]:
        return await all_backups(room)

    @router.get("/backups/operation", summary="The backup, restore or export under way, or the last one")
    async def operation() -> dict[str, Any]:
        found = await room.current()
        return {"operation": found.view() if found else None}

    @router.post("/backups/upload", status_code=201, openapi_extra=_FILE, summary="Bring a backup from elsewhere")
    async def upload(request: Request) -> dict[str, Any]:
        """The body is the file itself."""
        announced = request.headers.get("content-length", "")
        length = int(announced) if announced.isdigit() else 0
        return (await save_upload(room.library, request.stream(), length=length)).view()

    @router.post("/backups/restore/{backup_id}", status_code=202, summary="Restore all sessions, or some")
    async def restore(backup_id: str, body: Annotated[RestoreBody | None, Body()] = None) -> dict[str, Any]:
        """202 when every check has passed and the restore has begun; before that nothing is touched."""
        wanted = body or RestoreBody()
        sessions = tuple(dict.fromkeys(checked_session_id(text) for text in wanted.sessions))
        ordered = await room.order_restore(
            backup_id, sessions=sessions, force=wanted.force, passphrase=wanted.passphrase
        )
        return ordered.view()

    @router.get("/backups/{backup_id}", summary="Look at a backup")
    async def show(backup_id: str) -> dict[str, Any]:
        return await asyncio.to_thread(room.library.described, room.library.get(backup_id))

    @router.get("/backups/{backup_id}/download", summary="Download a backup; it holds credentials",
                response_class=FileResponse)  # fmt: skip
    async def download(backup_id: str) -> FileResponse:
        found = room.library.get(backup_id)
        return FileResponse(found.file, media_type="application/octet-stream", filename=found.file.name)

    @router.post("/backups/{backup_id}/verify", summary="Check every byte of a backup")
    async def verify(backup_id: str, body: Annotated[VerifyBody | None, Body()] = None) -> dict[str, Any]:
        return await room.verify(backup_id, passphrase=body.passphrase if body else "")

    @router.delete("/backups/{backup_id}", summary="Delete a backup")
    async def delete(backup_id: str) -> dict[str, Any]:
        await room.delete(backup_id)
        return {"id": backup_id, "deleted": True}

    @router.post("/sessions/{session_id}/export", status_code=202, summary="Export a session to move it elsewhere")
    async def export(session_id: str) -> dict[str, Any]:
        """The session ends here for good: two servers must never run it."""
        return (await room.order_export(checked_session_id(session_id))).view()

    @router.post("/sessions/import", status_code=202, summary="Import a session from an uploaded export")
    async def import_session(body: Annotated[ImportBody, Body()]) -> dict[str, Any]:
        if body.proxy and "://" in body.proxy:
            proxy_in(body.proxy, field="proxy")
        ordered = await room.order_restore(
            body.backup_id,
            sessions=(checked_session_id(body.session_id),) if body.session_id else (),
            passphrase=body.passphrase,
            mode="import",
            proxy=body.proxy or "",
        )
        return ordered.view()

    return router


async def all_backups(room: BackupRoom) -> dict[str, Any]:
    """The list, as the API and the page show it."""
    found = await asyncio.to_thread(lambda: [room.library.described(backup) for backup in room.library.all()])
    return {"backups": found, "total": len(found), "bytes": sum(backup["bytes"] for backup in found)}
