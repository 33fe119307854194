"""The folder of backups: what is in it, new names, retention, and what a killed process left."""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wa_orchestrator.backups import names
from wa_orchestrator.backups.checking import opened
from wa_orchestrator.backups.session_files import sync
from wa_orchestrator.clock import Clock, iso
from wa_orchestrator.errors import BackupNotFound, NoSpace, OrchestratorError
from wa_orchestrator.settings import Settings

_UNFINISHED, _UPLOADING = ".unfinished-", ".uploading-"
_OLD_UPLOAD_S = 86400
# beyond what is computed: the store's own file and logs want to go on growing
_SPARE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Backup:
    """One file of the folder."""

    backup_id: str
    file: Path
    bytes: int
    modified_ms: int
    encrypted: bool

    @property
    def kind(self) -> str:
        return names.kind_of(self.backup_id)

    def view(self) -> dict[str, Any]:
        return {
            "id": self.backup_id,
            "kind": self.kind,
            "bytes": self.bytes,
            "encrypted": self.encrypted,
            "createdAt": iso(self.modified_ms),
        }


class Library:
    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.path = settings.backups_path
        self._looked: dict[tuple[str, int, int], dict[str, Any]] = {}

    def open(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def all(self) -> list[Backup]:
        """Newest first; a file that is still being written is not there."""
        if not self.path.is_dir():
            return []
        found = [backup for entry in self.path.iterdir() if (backup := _as_backup(entry))]
        return sorted(found, key=lambda b: (b.modified_ms, b.backup_id), reverse=True)

    def get(self, backup_id: str) -> Backup:
        for ending in (names.PLAIN, names.SEALED):
            if names.is_backup_id(backup_id) and (found := _as_backup(self.path / f"{backup_id}{ending}")):
                return found
        raise BackupNotFound

    def described(self, backup: Backup) -> dict[str, Any]:
        """With what its manifest says, as far as it can be read with our own passphrase."""
        key = (backup.file.name, backup.bytes, backup.modified_ms)
        if key not in self._looked:
            self._looked[key] = self._look_into(backup)
            while len(self._looked) > 1000:
                self._looked.pop(next(iter(self._looked)))
        return {**backup.view(), **self._looked[key]}

    def _look_into(self, backup: Backup) -> dict[str, Any]:
        try:
            with opened(
                backup.file, passphrase=self._settings.backup_passphrase, now_ms=self._clock.now_ms()
            ) as content:
                manifest = content.manifest
                found: dict[str, Any] = {
                    "sessions": len(manifest.sessions),
                    "sessionIds": [entry.session_id for entry in manifest.sessions],
                    "skipped": [skipped.session_id for skipped in manifest.skipped],
                    "version": manifest.version or None,
                    "hasManifest": content.has_manifest,
                }
                if manifest.created_at:
                    found["createdAt"] = iso(manifest.created_at)
                return found
        except OrchestratorError as error:
            return {"sessions": None, "sessionIds": [], "problem": error.code}

    def delete(self, backup_id: str) -> None:
        self.get(backup_id).file.unlink(missing_ok=True)
        sync(self.path)

    # writing ---------------------------------------------------------------------------------------------------
    def new_id(self, prefix: str = "backup") -> str:
        taken = {backup.backup_id for backup in self.all()}
        return names.new_id(self._clock.now_ms(), self._settings.timezone, taken, prefix=prefix)

    def unfinished(self, word: str) -> Path:
        """A place beside the backups that is nobody's backup and is removed at the next start."""
        return self.path / f"{_UNFINISHED}{word}"

    def uploading(self, word: str) -> Path:
        """A file that comes over the network; it may come to another orchestrator, so it is only removed when old."""
        return self.path / f"{_UPLOADING}{word}"

    def publish(self, unfinished: Path, *, prefix: str = "backup", sealed: bool) -> Backup:
        """Gives a whole file its own name; from here on it is a backup."""
        ending = names.SEALED if sealed else names.PLAIN
        while True:
            backup_id = self.new_id(prefix)
            target = self.path / f"{backup_id}{ending}"
            try:
                os.link(unfinished, target)  # unlike a rename it never replaces a file that came meanwhile
            except FileExistsError:
                continue
            except OSError:  # a file system without hard links
                unfinished.rename(target)
            break
        unfinished.unlink(missing_ok=True)
        sync(self.path)
        return self.get(backup_id)

    def retire(self) -> list[str]:
        """Removes the oldest beyond MAX_BACKUPS."""
        doomed = names.too_many((b.backup_id for b in self.all()), keep=self._settings.max_backups)
        for backup_id in doomed:
            self.delete(backup_id)
        return doomed

    def sweep(self) -> list[str]:
        """Removes what killed processes left unfinished."""
        if not self.path.is_dir():
            return []
        old = self._clock.now_ms() / 1000 - _OLD_UPLOAD_S
        left = [
            entry
            for entry in self.path.iterdir()
            if entry.name.startswith(_UNFINISHED)
            or (entry.name.startswith(_UPLOADING) and entry.lstat().st_mtime < old)
        ]
        for entry in left:
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)
        return [entry.name for entry in left]


def check_space(folder: Path, needed: int) -> None:
    """Raises NoSpace, before anything is begun."""
    free = shutil.disk_usage(folder).free
    if free < needed + _SPARE_BYTES:
        raise NoSpace(
            f"{needed // 2**20 + 32} MB of free disk space are needed and {free // 2**20} MB are there. "
            "Nothing was changed; free some and try again.",
            details={"neededBytes": needed + _SPARE_BYTES, "freeBytes": free},
        )


def _as_backup(file: Path) -> Backup | None:
    backup_id = names.id_of(file.name)
    if backup_id is None:
        return None
    try:
        looks = file.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(looks.st_mode):  # a link is no backup
        return None
    return Backup(
        backup_id=backup_id,
        file=file,
        bytes=looks.st_size,
        modified_ms=looks.st_mtime_ns // 1_000_000,
        encrypted=file.name.endswith(names.SEALED),
    )
