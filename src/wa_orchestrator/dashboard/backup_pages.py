"""The page with backups: list, make one, restore."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from fastapi import Request

from wa_orchestrator.dashboard.guard import GuardedPages
from wa_orchestrator.dashboard.people import Person
from wa_orchestrator.http.backups import all_backups
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.sizes import size


def add_backup_pages(pages: GuardedPages, rooms: Rooms) -> None:
    settings = rooms.settings

    async def now() -> dict[str, Any]:
        listed, operation, job = await asyncio.gather(
            all_backups(rooms.backups), rooms.backups.current(), rooms.store.jobs.get("backup")
        )
        return {
            "backups": [_shown(backup) for backup in listed["backups"]],
            "operation": operation,
            "daily_at": settings.backup_at if settings.backup_at != "off" else "",
            "next_due": int(job["nextDue"]) if job.get("nextDue") else None,
            "last_error": job.get("lastError", ""),
            "keep": settings.max_backups,
            "encrypts": bool(settings.backup_passphrase),
        }

    @pages.page("/backups", "backups.html")
    async def backups(_request: Request, _: Person) -> dict[str, Any]:
        return {**await now(), "event_number": await rooms.store.journal.last_number()}

    @pages.part("/parts/backups", "parts/backups.html")
    async def backups_part(_request: Request, _: Person) -> dict[str, Any]:
        return await now()


def _shown(backup: dict[str, Any]) -> dict[str, Any]:
    made = int(datetime.fromisoformat(backup["createdAt"]).timestamp() * 1000)
    return {**backup, "size": size(backup["bytes"]), "at": made}
