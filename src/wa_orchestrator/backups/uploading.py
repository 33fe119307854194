"""A backup that is brought from elsewhere: written beside the others, listed when it is whole."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

from wa_orchestrator.backups.library import Backup, Library, check_space
from wa_orchestrator.backups.sealing import MAGIC
from wa_orchestrator.backups.threads import in_thread
from wa_orchestrator.errors import BackupDamaged

_ZIP = b"PK\x03\x04"
_CHECK_SPACE_EVERY = 64 * 1024 * 1024


async def save_upload(library: Library, pieces: AsyncIterator[bytes], *, length: int) -> Backup:
    """Raises BackupDamaged for what is no backup at all, NoSpace when it does not fit."""
    library.open()
    check_space(library.path, length)
    unfinished = library.uploading(secrets.token_hex(8))
    try:
        head = await _write(library.path, unfinished, pieces)
        if not head.startswith((_ZIP, MAGIC)):
            raise BackupDamaged(
                "This is no backup: it is neither a zip file nor an encrypted backup.", details={"problem": "not_a_zip"}
            )
        return await in_thread(library.publish, unfinished, prefix="upload", sealed=head.startswith(MAGIC))
    finally:
        unfinished.unlink(missing_ok=True)


async def _write(folder: Path, unfinished: Path, pieces: AsyncIterator[bytes]) -> bytes:
    """Its first bytes."""
    head, size, checked = b"", 0, 0
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        async for piece in pieces:
            head = (head + piece)[:16] if len(head) < 16 else head
            size += len(piece)
            if size - checked > _CHECK_SPACE_EVERY:
                checked = size
                check_space(folder, 0)
            await in_thread(file.write, piece)
        await in_thread(file.flush)
        await in_thread(os.fsync, file.fileno())
    return head
