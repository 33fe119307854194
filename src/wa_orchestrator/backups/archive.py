"""Writes a backup: a zip under a temporary name that gets its own name when it is whole and on the disk."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import BinaryIO, cast

from wa_orchestrator.backups import manifest as manifests
from wa_orchestrator.backups.manifest import FileEntry, Manifest
from wa_orchestrator.backups.sealing import SealedWriter
from wa_orchestrator.backups.session_files import files_of

_PIECE = 1024 * 1024
# more costs time and saves little: keys are random bytes in base64
_LEVEL = 4
_PLAIN_FILE = 0o100600 << 16


class ArchiveWriter:
    """To be used from one thread at a time. `finish` makes it a backup; without it `discard` leaves nothing."""

    def __init__(self, unfinished: Path, *, passphrase: str) -> None:
        self._path = unfinished
        self._raw: BinaryIO = os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
        self._sealed = SealedWriter(self._raw, passphrase) if passphrase else None
        out = cast(BinaryIO, self._sealed or self._raw)
        self._zip = zipfile.ZipFile(out, "w", compression=zipfile.ZIP_DEFLATED, compresslevel=_LEVEL)

    def add_session(self, session_id: str, folder: Path) -> tuple[FileEntry, ...]:
        """Adds a copied session's files."""
        return tuple(
            self._add(f"{manifests.FOLDER}/{session_id}/{name}", name, file) for name, file in files_of(folder)
        )

    def _add(self, full_name: str, name: str, file: Path) -> FileEntry:
        digest, size = hashlib.sha256(), 0
        with file.open("rb") as source, self._zip.open(_info(full_name), "w", force_zip64=True) as target:
            while piece := source.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                target.write(piece)
        return FileEntry(path=name, bytes=size, sha256=digest.hexdigest())

    def finish(self, manifest: Manifest) -> None:
        """Whole and on the disk afterwards, still under its temporary name."""
        self._zip.writestr(_info(manifests.NAME), manifests.encode(manifest))
        self._zip.close()
        if self._sealed:
            self._sealed.close()
        self._raw.flush()
        os.fsync(self._raw.fileno())
        self._raw.close()

    def discard(self) -> None:
        """Removes what was written; harmless after it got its own name."""
        # given up, not finished: neither may write its end into a closed file when it is collected
        self._zip.fp = None
        if self._sealed:
            self._sealed.abandon()
        self._raw.close()
        self._path.unlink(missing_ok=True)


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = _PLAIN_FILE
    return info
