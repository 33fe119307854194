"""Files that workers received: who sends is proved before a byte is read, and the file must be what was signed."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from wa_orchestrator.errors import InvalidBody, SessionDeleted, SessionNotFound, TooLarge
from wa_orchestrator.inbound.files import InboundFiles
from wa_orchestrator.store import Store
from wa_orchestrator.worker_api.intake import Intake

_SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)


class InboundUploads:
    def __init__(self, *, store: Store, intake: Intake, files: InboundFiles) -> None:
        self._store = store
        self._intake = intake
        self._files = files

    async def take(
        self, session_id: str, media_id: str, path: str, headers: dict[str, str], chunks: AsyncIterator[bytes]
    ) -> dict[str, Any]:
        """The file is on disk when this answers; MEDIA_READY, in its place among the events, makes it known."""
        size, sha256 = headers.get("content-length", ""), headers.get("x-content-sha256", "")
        self._intake.check_worker(session_id, f"PUT {path}\n{size}\n{sha256}".encode(), headers)
        if not size.isascii() or not size.isdigit() or not _SHA256.fullmatch(sha256):
            raise InvalidBody("Content-Length and X-Content-Sha256 are needed.", details={"field": "X-Content-Sha256"})
        if int(size[:18]) > self._files.max_bytes:
            raise TooLarge(f"The file is larger than {self._files.max_bytes} bytes (INBOUND_MEDIA_MAX_BYTES).")
        if await self._store.sessions.get(session_id) is None:
            raise SessionDeleted if await self._store.sessions.was_deleted(session_id) else SessionNotFound
        stored = await self._files.save(session_id, media_id, chunks, sha256=sha256)
        return {"ok": True, "sizeBytes": stored}
