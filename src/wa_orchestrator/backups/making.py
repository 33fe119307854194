"""Makes a backup: each session is paused only while its own folder is copied."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import structlog

from wa_orchestrator import __version__
from wa_orchestrator.backups.archive import ArchiveWriter
from wa_orchestrator.backups.auth_files import AuthState, drop_history, read_auth
from wa_orchestrator.backups.library import Backup, Library, check_space
from wa_orchestrator.backups.manifest import FileEntry, Manifest, SessionEntry, Skipped
from wa_orchestrator.backups.session_files import bytes_of, copy_to
from wa_orchestrator.backups.threads import in_thread
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import NoSpace, OrchestratorError, SessionNotFound
from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.processes.filelock import is_locked
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

# how long the next session waits for those before it to be connected again: a slow one must not hold up all others
_BACK_WITHIN_S = 15.0
_LOOK_AGAIN_S = 0.1
Progress = Callable[[str, int, int, str], Awaitable[None]]


class BackupMaker:
    def __init__(
        self, *, store: Store, lifecycle: Lifecycle, settings: Settings, clock: Clock, library: Library
    ) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._settings = settings
        self._clock = clock
        self._library = library

    async def make(self, word: str, progress: Progress) -> tuple[Backup, Manifest]:
        """All sessions into one file; `word` names its unfinished form."""
        half_made = await self._store.sessions.unconfirmed()
        sessions = [
            session
            for session in await self._store.sessions.all()
            if session.wanted is not Wanted.DELETED and session.session_id not in half_made
        ]
        return await self._write(word, sessions, progress, prefix="backup", kind="backup")

    async def export(self, word: str, session_id: str, progress: Progress) -> tuple[Backup, Manifest]:
        """One session into a file to carry it elsewhere. It does not start here again."""
        session = await self._store.sessions.get(session_id)
        if session is None or session.wanted is Wanted.DELETED:
            raise SessionNotFound
        # held until it is marked as moved: its keys must not change after they were copied. Should anything fail
        # before, it is still wanted here and starts again.
        async with self._lifecycle.held(session_id, reason="EXPORT", resume=True):
            return await self._write(word, [session], progress, prefix=f"export_{session_id}", kind="export")

    async def _write(
        self, word: str, sessions: Sequence[Session], progress: Progress, *, prefix: str, kind: str
    ) -> tuple[Backup, Manifest]:
        await progress("checking", 0, len(sessions), "")
        await in_thread(self._check_space, [session.session_id for session in sessions])
        passphrase = self._settings.backup_passphrase
        unfinished, staging = self._library.unfinished(f"{word}.zip"), self._library.unfinished(f"{word}.copy")
        writer = await in_thread(ArchiveWriter, unfinished, passphrase=passphrase)
        try:
            entries, skipped = await self._add_all(writer, staging, sessions, progress, moves=kind == "export")
            await progress("writing", len(sessions), len(sessions), "")
            manifest = Manifest(
                kind=kind,
                version=__version__,
                created_at=self._clock.now_ms(),
                sessions=tuple(entries),
                skipped=tuple(skipped),
                parts=await self._store.carrying.collect_parts() if kind == "backup" else {},
            )
            await in_thread(writer.finish, manifest)
            if kind == "export":
                # before the file has a name that anybody could carry away: two servers must never run it
                await self._store.carrying.mark_moved(sessions[0].session_id)
            made = await in_thread(self._library.publish, unfinished, prefix=prefix, sealed=bool(passphrase))
            return made, manifest
        except OSError as error:
            raise NoSpace(f"The backup could not be written: {error.strerror}.") from error
        finally:
            await in_thread(writer.discard)
            await in_thread(shutil.rmtree, staging, ignore_errors=True)

    def _check_space(self, session_ids: Sequence[str]) -> None:
        self._library.open()
        sizes = [bytes_of(self._settings.sessions_path / session_id) for session_id in session_ids]
        # the file at its worst, uncompressed, and the copy of the session at work
        check_space(self._library.path, sum(sizes) + max(sizes, default=0))

    async def _add_all(
        self,
        writer: ArchiveWriter,
        staging: Path,
        sessions: Sequence[Session],
        progress: Progress,
        *,
        moves: bool,
    ) -> tuple[list[SessionEntry], list[Skipped]]:
        entries: list[SessionEntry] = []
        skipped: list[Skipped] = []
        coming_back: dict[str, float] = {}
        for number, session in enumerate(sessions):
            session_id = session.session_id
            await progress("copying", number, len(sessions), session_id)
            await self._wait_for_room(coming_back)
            copy = staging / session_id
            try:
                state, paused_ms = await self._copy(session_id, copy, held=moves)
            except OrchestratorError as error:
                if moves:
                    raise
                log.warning("backup_session_skipped", session_id=session_id, code=error.code, error=error.message)
                skipped.append(Skipped(session_id=session_id, reason=error.code))
                continue
            if paused_ms is not None and session.linked and not moves:
                coming_back[session_id] = time.monotonic()
            files, auth = await in_thread(_added, writer, session_id, copy)
            entries.append(
                SessionEntry(
                    session_id=session_id,
                    store=state,
                    generation=auth.generation if auth else 0,
                    jid=auth.jid if auth else "",
                    paused_ms=paused_ms,
                    files=files,
                )
            )
        return entries, skipped

    async def _copy(self, session_id: str, copy: Path, *, held: bool) -> tuple[dict[str, object], int | None]:
        """The store's view and the folder of one moment; how long its worker was away, None if it did not run."""
        was_running = await self._lifecycle.runs(session_id)
        began = time.monotonic()
        async with nullcontext() if held else self._lifecycle.held(session_id, reason="BACKUP", resume=True):
            folder = self._settings.sessions_path / session_id
            if await in_thread(is_locked, folder / ".lock"):
                raise OrchestratorError("Another program uses this session's folder.")
            state = await self._store.carrying.collect(session_id)
            if not state["record"]:
                raise SessionNotFound
            await in_thread(copy_to, folder, copy)
        return state, round((time.monotonic() - began) * 1000) if was_running else None

    async def _wait_for_room(self, coming_back: dict[str, float]) -> None:
        """No more sessions on their way back than may start at once: the others' pauses stay short."""
        while len(coming_back) >= self._settings.start_budget:
            found = {session.session_id: session for session in await self._store.sessions.many(list(coming_back))}
            for session_id, since in list(coming_back.items()):
                session = found.get(session_id)
                if (
                    session is None
                    or session.status is not Status.RECONNECTING
                    or session.wanted is not Wanted.RUNNING
                    or time.monotonic() - since > _BACK_WITHIN_S
                ):
                    del coming_back[session_id]
            if len(coming_back) >= self._settings.start_budget:
                await asyncio.sleep(_LOOK_AGAIN_S)


def _added(writer: ArchiveWriter, session_id: str, copy: Path) -> tuple[tuple[FileEntry, ...], AuthState | None]:
    """A copied session into the file; its worker runs again meanwhile."""
    for name in ("auth", "outbox"):
        drop_history(copy / name / "journal")
    auth = read_auth(copy)
    files = writer.add_session(session_id, copy)
    shutil.rmtree(copy)
    return files, auth
