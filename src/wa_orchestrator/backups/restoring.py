"""Restores sessions from a backup: checked first, prepared aside, swapped by rename; any failure puts all back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog

from wa_orchestrator.backups.auth_files import read_auth
from wa_orchestrator.backups.checking import OpenBackup, opened
from wa_orchestrator.backups.library import check_space
from wa_orchestrator.backups.making import Progress
from wa_orchestrator.backups.manifest import SessionEntry
from wa_orchestrator.backups.session_files import sync_tree
from wa_orchestrator.backups.swapping import RestoredSession, RestoreFolders, RestoreJournal
from wa_orchestrator.backups.threads import in_thread
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import (
    BackupOlder,
    OrchestratorError,
    RestoreFailed,
    SessionNotFound,
    SessionNotInBackup,
    StoreUnavailable,
)
from wa_orchestrator.model.proxy import ProxyAddress, parse_proxy
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

# workers stopped at the same time
_STOPS_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True)
class RestoreOrder:
    """What somebody asks for."""

    file: Path
    backup_id: str
    sessions: tuple[str, ...] = ()  # empty: all
    force: bool = False
    mode: str = "backup"  # or import: one session that must be new here
    proxy: str = ""
    passphrase: str = ""


@dataclass(frozen=True, kw_only=True)
class Restored:
    sessions: tuple[str, ...]
    without_slot: tuple[str, ...] = ()  # restored, but stopped: no proxy has room


class Restorer:
    def __init__(self, *, store: Store, lifecycle: Lifecycle, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._settings = settings
        self._clock = clock
        self.folders = RestoreFolders(settings.sessions_path)

    async def restore(self, token: str, order: RestoreOrder, progress: Progress) -> Restored:
        journal = await self._prepare(token, order, progress)
        return await self._apply_or_undo(journal, progress)

    # before anything is touched --------------------------------------------------------------------------------
    async def _prepare(self, token: str, order: RestoreOrder, progress: Progress) -> RestoreJournal:
        """Everything verified and extracted beside the sessions; nothing has changed yet."""
        await progress("verifying", 0, 0, "")
        _proxy_by_hand(order.proxy)
        with ExitStack() as stack:
            reading = opened(order.file, passphrase=order.passphrase, now_ms=self._clock.now_ms())
            backup = await in_thread(stack.enter_context, reading)
            chosen = _chosen(backup, order)
            await verify(backup, progress)
            if not order.force:
                await in_thread(self._refuse_older, chosen)
            self._settings.sessions_path.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_space(self._settings.sessions_path, sum(entry.total_bytes for entry in chosen))
            try:
                await in_thread(self.folders.begin)
                for number, entry in enumerate(chosen):
                    await progress("extracting", number, len(chosen), entry.session_id)
                    await in_thread(self._extract, backup, entry.session_id)
            except BaseException:
                await in_thread(self.folders.finish)
                raise
        journal = RestoreJournal(
            token=token,
            backup_id=order.backup_id,
            mode=order.mode,
            stamp_ms=self._clock.now_ms(),
            proxy=order.proxy,
            # users and limits of the whole installation come with a whole restore only
            parts={} if order.sessions or order.mode == "import" else backup.manifest.parts,
            sessions=tuple([await self._with_present(entry) for entry in chosen]),
        )
        await in_thread(self.folders.write_journal, journal)
        return journal

    def _extract(self, backup: OpenBackup, session_id: str) -> None:
        target = self.folders.new(session_id)
        backup.extract(session_id, target)
        sync_tree(target)

    async def _with_present(self, entry: SessionEntry) -> RestoredSession:
        phone = str(entry.store["record"].get("phone") or "")
        before = await self._store.carrying.collect(entry.session_id, phone=phone)
        return RestoredSession(session_id=entry.session_id, store=entry.store, before=before)

    def _refuse_older(self, chosen: Iterable[SessionEntry]) -> None:
        older = []
        for entry in chosen:
            live = read_auth(self._settings.sessions_path / entry.session_id)
            linked_anew = live is not None and live.paired and live.jid != entry.jid
            if live and (live.generation > entry.generation or linked_anew):
                older.append(entry.session_id)
        if older:
            raise BackupOlder(details={"sessions": older})

    # the change ------------------------------------------------------------------------------------------------
    async def _apply_or_undo(self, journal: RestoreJournal, progress: Progress) -> Restored:
        async with self._all_held(journal):
            if journal.undoing:
                await self._undo(journal)
                raise RestoreFailed
            try:
                restored = await self._apply(journal, progress)
            except (asyncio.CancelledError, StoreUnavailable):
                raise  # as after a kill: it is finished later, here or by whoever leads next
            except Exception as error:
                log.error("restore_undone", backup=journal.backup_id, error=str(error))
                journal = msgspec.structs.replace(journal, undoing=True)
                await in_thread(self.folders.write_journal, journal)
                await self._undo(journal)
                if isinstance(error, OrchestratorError) and error.status < 500:
                    raise
                raise RestoreFailed from error
            await in_thread(self.folders.finish)
        # the reconciler starts the workers, a few at a time
        return restored

    def _all_held(self, journal: RestoreJournal) -> _AllHeld:
        return _AllHeld(self._lifecycle, [session.session_id for session in journal.sessions])

    async def _apply(self, journal: RestoreJournal, progress: Progress) -> Restored:
        total = len(journal.sessions)
        await progress("swapping", 0, total, "")
        await in_thread(self.folders.swap, journal)
        proxy_id, address = _proxy_by_hand(journal.proxy)
        without_slot = []
        for number, session in enumerate(journal.sessions):
            await progress("rebuilding", number, total, session.session_id)
            placed = await self._store.carrying.restore(
                session.session_id,
                session.store,
                token=journal.token,
                mode=journal.mode,
                backup=journal.backup_id,
                scan_by=self._scan_by(),
                proxy_id=proxy_id,
                proxy_address=address,
            )
            if not placed.placed:
                without_slot.append(session.session_id)
        await self._store.carrying.restore_parts(journal.parts)
        return Restored(
            sessions=tuple(session.session_id for session in journal.sessions), without_slot=tuple(without_slot)
        )

    async def _undo(self, journal: RestoreJournal) -> None:
        await in_thread(self.folders.swap_back, journal)
        for session in journal.sessions:
            await self._put_back(session, token=f"{journal.token}.undo", backup_id=journal.backup_id)
        await in_thread(self.folders.finish)

    async def _put_back(self, session: RestoredSession, *, token: str, backup_id: str) -> None:
        before = session.before
        if before["record"]:
            await self._store.carrying.restore(
                session.session_id, before, token=token, mode="before", backup=backup_id, scan_by=self._scan_by()
            )
            return
        was_bound = bool((before.get("phone") or {}).get("proxy"))
        try:
            await self._store.sessions.delete(session.session_id, keep_s=0, forget=not was_bound)
        except SessionNotFound:
            return  # it had not come that far

    def _scan_by(self) -> int:
        return self._clock.now_ms() + self._settings.scan_timeout_ms

    # after a kill ----------------------------------------------------------------------------------------------
    async def recover(self, progress: Progress) -> tuple[RestoreJournal, Restored | OrchestratorError] | None:
        """Finishes what a killed server had begun; None when there was nothing."""
        journal = await in_thread(self.folders.read_journal)
        if journal is None:
            await in_thread(self.folders.finish)  # at most half prepared
            return None
        log.warning("restore_taken_up_again", backup=journal.backup_id, sessions=len(journal.sessions))
        try:
            return journal, await self._apply_or_undo(journal, progress)
        except OrchestratorError as error:
            if await in_thread(self.folders.read_journal) is not None:
                raise  # not even undone: to be tried again
            return journal, error


class _AllHeld:
    """All sessions of a restore, their workers stopped, until the block ends. Nothing is started at its end."""

    def __init__(self, lifecycle: Lifecycle, session_ids: list[str]) -> None:
        self._lifecycle = lifecycle
        self._session_ids = session_ids
        self._stack = AsyncExitStack()
        self._slots = asyncio.Semaphore(_STOPS_AT_ONCE)

    async def __aenter__(self) -> None:
        async with AsyncExitStack() as undo:
            undo.push_async_exit(self._stack)
            results = await asyncio.gather(*map(self._hold, self._session_ids), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            undo.pop_all()

    async def _hold(self, session_id: str) -> None:
        async with self._slots:
            await self._stack.enter_async_context(self._lifecycle.held(session_id, reason="RESTORE", resume=False))

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


async def verify(backup: OpenBackup, progress: Progress) -> None:
    """Every byte of it."""
    total = len(backup.manifest.sessions)
    proving = backup.check_contents()
    for number in range(total):
        session_id = await in_thread(next, proving)
        await progress("verifying", number + 1, total, session_id)


def _chosen(backup: OpenBackup, order: RestoreOrder) -> list[SessionEntry]:
    sessions = backup.sessions
    missing = [session_id for session_id in order.sessions if session_id not in sessions]
    if missing:
        raise SessionNotInBackup(details={"sessions": missing})
    if order.mode == "import" and len(order.sessions or sessions) != 1:
        raise SessionNotInBackup(
            "An import takes one session. Name it, or restore the backup.", details={"sessions": sorted(sessions)[:100]}
        )
    return [sessions[session_id] for session_id in (order.sessions or sessions)]


def _proxy_by_hand(text: str) -> tuple[str, ProxyAddress | None]:
    """(id, address) of a proxy given as an id or an address; empty for none."""
    if "://" not in text:
        return text, None
    address = parse_proxy(text)
    return address.proxy_id, address


def summary(restored: Restored) -> dict[str, Any]:
    return {"sessions": list(restored.sessions), "withoutSlot": list(restored.without_slot)}
