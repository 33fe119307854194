"""Uploaded files: kept in the data folder until their messages had time to go out."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from wa_orchestrator.errors import InvalidBody, MediaNotFound, NoMediaFolder
from wa_orchestrator.whole_file import write_whole

_ID = re.compile(r"^med_[0-9a-f]{24}$")


class MediaStore:
    """One file per upload, named by a random id; whole or not there at all."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._max = max_bytes

    async def save(self, chunks: AsyncIterator[bytes]) -> tuple[str, int]:
        """(id, size); refuses what is too large or empty."""
        media_id = f"med_{secrets.token_hex(12)}"
        size = await write_whole(
            self._folder / media_id, chunks, max_bytes=self._max, setting="MAX_MEDIA_BYTES", check=_not_empty
        )
        return media_id, size

    def path(self, media_id: str) -> Path:
        file = self._folder / media_id
        if not _ID.fullmatch(media_id) or not file.is_file():
            raise MediaNotFound
        return file

    def remove_old(self, *, older_than_s: float) -> int:
        """Removes files that have not been touched since."""
        if not self._folder.is_dir():
            return 0
        old = [file for file in self._folder.iterdir() if file.stat().st_mtime < older_than_s]
        for file in old:
            file.unlink(missing_ok=True)
        return len(old)


class NoMediaStore(MediaStore):
    """In place of the folder where a gateway runs without one."""

    def __init__(self) -> None:
        super().__init__(Path(), max_bytes=0)

    async def save(self, chunks: AsyncIterator[bytes]) -> tuple[str, int]:
        raise NoMediaFolder

    def path(self, media_id: str) -> Path:
        raise NoMediaFolder

    def remove_old(self, *, older_than_s: float) -> int:
        return 0


def _not_empty(size: int) -> None:
    if not size:
        raise InvalidBody("The file is empty.", details={"field": "body"})
