"""The folders of a restore: prepared beside the sessions, swapped by rename, swapped back if it fails.

    sessions/.restore/journal.json    what is being done; written before the first rename, gone after the last step
    sessions/.restore/new/<id>/       a session's restored folder, before the swap
    sessions/.aside/<id>.<stamp>/     what was there before, kept for DELETED_KEEP_DAYS

Every step looks where the folders are, so it can be repeated after a kill at any point.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from wa_orchestrator.backups.auth_files import read_journal
from wa_orchestrator.backups.session_files import sync


class RestoredSession(msgspec.Struct, frozen=True, kw_only=True):
    """One session of a restore: what the store shall know, and what it knew before."""

    session_id: str
    store: dict[str, Any]
    before: dict[str, Any]  # an empty record: there was no such session


class RestoreJournal(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    backup_id: str
    mode: str  # backup or import
    stamp_ms: int
    sessions: tuple[RestoredSession, ...]
    parts: dict[str, dict[str, Any]] = {}
    proxy: str = ""  # given by hand, as an id or an address
    undoing: bool = False


class RestoreFolders:
    def __init__(self, sessions_path: Path) -> None:
        self._sessions = sessions_path
        self._root = sessions_path / ".restore"
        self._journal = self._root / "journal.json"

    def begin(self) -> None:
        """An empty place to prepare; what an unfinished preparation left is gone."""
        shutil.rmtree(self._root, ignore_errors=True)
        self._root.mkdir(mode=0o700, parents=True)
        (self._sessions / ".aside").mkdir(mode=0o700, exist_ok=True)

    def new(self, session_id: str) -> Path:
        return self._root / "new" / session_id

    def _live(self, session_id: str) -> Path:
        return self._sessions / session_id

    def _aside(self, session_id: str, stamp_ms: int) -> Path:
        # the name that sessions/folders.py knows, so that it is removed after a while
        return self._sessions / ".aside" / f"{session_id}.{stamp_ms}"

    # the journal -----------------------------------------------------------------------------------------------
    def write_journal(self, journal: RestoreJournal) -> None:
        """On the disk when it returns."""
        written = self._root / "journal.tmp"
        fd = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(msgspec.json.encode(journal))
            file.flush()
            os.fsync(file.fileno())
        written.rename(self._journal)
        sync(self._root)
        sync(self._sessions)

    def read_journal(self) -> RestoreJournal | None:
        try:
            data = self._journal.read_bytes()
        except FileNotFoundError:
            return None
        return msgspec.json.decode(data, type=RestoreJournal)

    def unfinished(self) -> bool:
        """A restore that was begun and neither finished nor undone."""
        return self._journal.exists()

    def finish(self) -> None:
        """Done, or undone: from here on nothing remembers it. The journal goes first."""
        self._journal.unlink(missing_ok=True)
        if self._root.is_dir():
            sync(self._root)
            shutil.rmtree(self._root, ignore_errors=True)

    # the swap --------------------------------------------------------------------------------------------------
    def swap(self, journal: RestoreJournal) -> None:
        for session in journal.sessions:
            self._swap_one(session.session_id, journal.stamp_ms)
        sync(self._sessions)

    def _swap_one(self, session_id: str, stamp_ms: int) -> None:
        new, live, aside = self.new(session_id), self._live(session_id), self._aside(session_id, stamp_ms)
        if not new.is_dir():
            return  # swapped before we were killed
        _keep_newer_ledger(live, new)
        if live.is_dir():
            live.rename(aside)
        new.rename(live)

    def swap_back(self, journal: RestoreJournal) -> None:
        for session in journal.sessions:
            self._swap_back_one(session.session_id, journal.stamp_ms)
        sync(self._sessions)

    def _swap_back_one(self, session_id: str, stamp_ms: int) -> None:
        new, live, aside = self.new(session_id), self._live(session_id), self._aside(session_id, stamp_ms)
        # every session was prepared before the journal was written: without its new folder it is the live one
        if not new.is_dir() and live.is_dir():
            live.rename(new)
        if aside.is_dir() and not live.is_dir():
            aside.rename(live)


def _keep_newer_ledger(live: Path, new: Path) -> None:
    """The ledger of sent messages only grows: a live one that is newer keeps messages from being sent twice."""
    had, has = read_journal(live / "outbox" / "journal"), read_journal(new / "outbox" / "journal")
    if had is None or (has is not None and has.generation >= had.generation):
        return
    (new / "outbox").mkdir(mode=0o700, exist_ok=True)
    shutil.copyfile(live / "outbox" / "journal", new / "outbox" / "journal.tmp")
    sync(new / "outbox" / "journal.tmp")
    (new / "outbox" / "journal.tmp").rename(new / "outbox" / "journal")
    sync(new / "outbox")
