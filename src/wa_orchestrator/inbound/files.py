"""Received files on disk: whole or not there at all, each below the folder of its session; kept by age and by room."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import shutil
import time
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import Path

from wa_orchestrator.errors import InvalidBody
from wa_orchestrator.inbound.reading import MEDIA_ID
from wa_orchestrator.whole_file import write_whole

_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_UNFINISHED_S = 3600.0  # an upload that was cut off; a live one writes all the time


@dataclass(frozen=True)
class Swept:
    removed: int
    left_bytes: int


class InboundFiles:
    def __init__(self, folder: Path, *, max_bytes: int, total_bytes: int, keep_days: int) -> None:
        self._folder = folder
        self.max_bytes = max_bytes
        self._total = total_bytes
        self._keep_s = keep_days * 86_400
        self._bytes = 0  # as far as this process knows; counted anew at every sweep
        self.crowded = asyncio.Event()

    async def save(self, session_id: str, media_id: str, chunks: AsyncIterator[bytes], *, sha256: str) -> int:
        """The size; refuses what is too large or is not what was announced. The same file again is no harm."""
        target = self._path(session_id, media_id)
        found = hashlib.sha256()

        def is_the_announced_one(_: int) -> None:
            if found.hexdigest() != sha256:
                raise InvalidBody("The file is not the one that was announced.", details={"field": "body"})

        size = await write_whole(
            target, chunks, max_bytes=self.max_bytes, setting="INBOUND_MEDIA_MAX_BYTES", seen=found.update,
            check=is_the_announced_one,
        )  # fmt: skip
        self._bytes += size
        if self._bytes > self._total:
            self.crowded.set()
        return size

    def find(self, session_id: str, media_id: str) -> Path | None:
        if not MEDIA_ID.fullmatch(media_id) or not _SESSION_ID.fullmatch(session_id):
            return None
        file = self._path(session_id, media_id)
        return file if file.is_file() else None

    def sessions(self) -> list[str]:
        """Those with a folder here."""
        return [entry.name for entry in self._folder.iterdir() if entry.is_dir()] if self._folder.is_dir() else []

    def sweep(self, *, gone: Collection[str] = ()) -> Swept:
        """Removes what belongs to deleted sessions, what is too old, and then the oldest until the rest fits."""
        self.crowded.clear()
        for session_id in gone:
            shutil.rmtree(self._folder / session_id, ignore_errors=True)
        now, removed = time.time(), 0
        kept: list[tuple[float, int, Path]] = []
        for file in self._folder.glob("*/*"):
            with contextlib.suppress(FileNotFoundError):
                about = file.stat()
                age = now - about.st_mtime
                if age > (_UNFINISHED_S if file.suffix == ".part" else self._keep_s):
                    file.unlink(missing_ok=True)
                    removed += 1
                else:
                    kept.append((about.st_mtime, about.st_size, file))
        self._bytes = sum(size for _, size, _ in kept)
        for _, size, file in sorted(kept, key=lambda one: one[0]):
            if self._bytes <= self._total:
                break
            file.unlink(missing_ok=True)
            self._bytes -= size
            removed += 1
        return Swept(removed, self._bytes)

    def _path(self, session_id: str, media_id: str) -> Path:
        if not MEDIA_ID.fullmatch(media_id) or not _SESSION_ID.fullmatch(session_id):
            raise InvalidBody("This is no id of a file.", details={"field": "mediaId"})
        return self._folder / session_id / media_id
