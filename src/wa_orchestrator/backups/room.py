"""The backup room: takes orders from anywhere, and does them one at a time where the workers are, at the leader."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import structlog

from wa_orchestrator.background import repeat, unless_stopped
from wa_orchestrator.backups.checking import opened
from wa_orchestrator.backups.library import Library
from wa_orchestrator.backups.making import BackupMaker
from wa_orchestrator.backups.manifest import Manifest
from wa_orchestrator.backups.restoring import Restored, RestoreOrder, Restorer, summary, verify
from wa_orchestrator.backups.threads import in_thread
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import (
    BackupBusy,
    BackupNeedsPassphrase,
    OperationInterrupted,
    OrchestratorError,
    RunnerUnavailable,
)
from wa_orchestrator.processes.filelock import try_lock
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.operations import ALIVE_MS, Operation

log = structlog.get_logger()

_LOOK_EVERY_S = 0.5
_WATCH_EVERY_S = 0.1
# a take-over takes 11 s; then somebody leads and takes the order up
_TAKEN_UP_WITHIN_S = ALIVE_MS / 1000
# so long a caller waits to hear whether the checks passed; then it is told to look at the progress
_CHECKED_WITHIN_S = 45.0
_CHECKS = frozenset({"", "ordered", "checking", "verifying"})
_EVENTS = {"backup": ("backup.created", "backup.failed"), "export": ("session.export_made", "session.export_failed"),
           "restore": ("restore.done", "restore.failed")}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _Done:
    """What an operation brought, for the caller and for the journal; never a secret."""

    result: dict[str, Any]
    note: dict[str, Any]


class BackupRoom:
    """`order_*` may be called at any orchestrator; `run` and `recover` are the leader's."""

    def __init__(self, *, store: Store, lifecycle: Lifecycle, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._settings = settings
        self._clock = clock
        self.library = Library(settings, clock)
        self._maker = BackupMaker(
            store=store, lifecycle=lifecycle, settings=settings, clock=clock, library=self.library
        )
        self._restorer = Restorer(store=store, lifecycle=lifecycle, settings=settings, clock=clock)
        # a passphrase given with an order stays in this process: it is never written anywhere
        self._passphrases: dict[str, str] = {}
        self._wake = asyncio.Event()

    # ordering --------------------------------------------------------------------------------------------------
    async def order_backup(self) -> Operation:
        return await self._order("backup", {})

    async def order_export(self, session_id: str) -> Operation:
        return await self._order("export", {"sessionId": session_id})

    async def order_restore(
        self,
        backup_id: str,
        *,
        sessions: tuple[str, ...] = (),
        force: bool = False,
        passphrase: str = "",
        mode: str = "backup",
        proxy: str = "",
    ) -> Operation:
        """Returns when the checks have passed; raises which did not."""
        self.library.get(backup_id)
        if passphrase and not self._lifecycle.leads():
            raise BackupNeedsPassphrase(
                "A passphrase can only be sent to the orchestrator that leads. Set BACKUP_PASSPHRASE there, or ask it."
            )
        arguments = {
            "backupId": backup_id, "sessions": list(sessions), "force": force, "mode": mode, "proxy": proxy,
        }  # fmt: skip
        return await self._order("restore", arguments, passphrase=passphrase)

    async def _order(self, kind: str, arguments: dict[str, Any], *, passphrase: str = "") -> Operation:
        operation_id = await self._store.operations.order(kind, arguments)
        if passphrase:
            self._passphrases[operation_id] = passphrase
        self._wake.set()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            operation = await self._known(operation_id)
            if operation.state == "failed":
                operation.raise_error()
            waited = loop.time() - began
            if operation.state == "ordered" and waited > _TAKEN_UP_WITHIN_S:
                self._passphrases.pop(operation_id, None)
                raise RunnerUnavailable("No orchestrator took the order up in time. Is one running that leads?")
            if operation.phase not in _CHECKS or waited > _CHECKED_WITHIN_S:
                return operation
            await asyncio.sleep(_WATCH_EVERY_S)

    async def wait(self, operation_id: str) -> Operation:
        """Until it has ended; raises why it failed."""
        while not (operation := await self._known(operation_id)).ended:
            if operation.alive_until < self._clock.now_ms():
                raise OperationInterrupted
            await asyncio.sleep(_WATCH_EVERY_S)
        if operation.state == "failed":
            operation.raise_error()
        return operation

    async def _known(self, operation_id: str) -> Operation:
        operation = await self._store.operations.get()
        if operation is None or operation.operation_id != operation_id:
            raise OperationInterrupted
        return operation

    async def current(self) -> Operation | None:
        """The one under way, or the last one. One whose process died is told as such."""
        operation = await self._store.operations.get()
        if operation and not operation.ended and operation.alive_until < self._clock.now_ms():
            failure = OperationInterrupted()
            ended = {"code": failure.code, "message": failure.message}
            return Operation(
                operation_id=operation.operation_id, kind=operation.kind, state="failed", phase="failed",
                ordered_at=operation.ordered_at, ended_at=operation.alive_until, error=ended,
            )  # fmt: skip
        return operation

    async def delete(self, backup_id: str) -> None:
        operation = await self.current()
        if operation and not operation.ended and operation.arguments.get("backupId") == backup_id:
            raise BackupBusy("This backup is being restored just now. Delete it when that has ended.")
        await in_thread(self.library.delete, backup_id)

    async def verify(self, backup_id: str, *, passphrase: str = "") -> dict[str, Any]:
        """Every byte of a backup, without changing anything; raises what is wrong with it."""
        file = self.library.get(backup_id).file

        async def silent(*_: object) -> None:
            return

        with contextlib.ExitStack() as stack:
            reading = opened(file, passphrase=self._or_own(passphrase), now_ms=self._clock.now_ms())
            backup = await in_thread(stack.enter_context, reading)
            await verify(backup, silent)
            entries = backup.manifest.sessions
            return {
                "id": backup_id,
                "ok": True,
                "hasManifest": backup.has_manifest,
                "sessions": len(entries),
                "files": sum(len(entry.files) for entry in entries),
                "bytes": sum(entry.total_bytes for entry in entries),
            }

    def _or_own(self, passphrase: str) -> str:
        return passphrase or self._settings.backup_passphrase

    # the daily one ---------------------------------------------------------------------------------------------
    async def make_daily(self) -> None:
        """The scheduled backup: waits for one that is under way, then makes its own."""
        while True:
            try:
                operation = await self.order_backup()
            except BackupBusy:
                await asyncio.sleep(_LOOK_EVERY_S)
                continue
            await self.wait(operation.operation_id)
            return

    # at the leader ---------------------------------------------------------------------------------------------
    async def run(self, stop: asyncio.Event) -> None:
        async def once() -> None:
            # stopped in the middle is as good as killed: whoever leads next finishes or undoes it
            await unless_stopped(stop, self.run_once())

        await repeat(once, stop, every_s=_LOOK_EVERY_S, name="backups", wake=self._wake)

    async def run_once(self) -> bool:
        """Does what is ordered; True when there was something. A restore that was cut short comes first."""
        if self._restorer.folders.unfinished():
            await self.recover()
            return True
        operation = await self._store.operations.claim()
        if operation is None:
            return False
        async with self._alone() as alone:
            if not alone:
                await self._fail(operation, BackupBusy())
                return True
            renewal = asyncio.create_task(self._keep_alive(operation.operation_id))
            try:
                await self._do(operation)
            finally:
                self._passphrases.pop(operation.operation_id, None)
                renewal.cancel()
                await asyncio.gather(renewal, return_exceptions=True)
        return True

    async def _do(self, operation: Operation) -> None:
        log.info("operation_started", kind=operation.kind, operation_id=operation.operation_id)
        work = {"backup": self._back_up, "export": self._export, "restore": self._restore}[operation.kind]
        try:
            done = await work(operation)
        except OrchestratorError as error:
            if self._restorer.folders.unfinished():
                log.warning("restore_cut_short", code=error.code)
                return
            await self._fail(operation, error)
        except Exception as error:
            log.exception("operation_failed", kind=operation.kind, operation_id=operation.operation_id)
            await self._fail(operation, OrchestratorError(details={"problem": type(error).__name__}))
        else:
            await self._store.operations.end(
                operation.operation_id, result=done.result, event=_EVENTS[operation.kind][0], note=done.note
            )
            log.info("operation_done", kind=operation.kind, **done.note)

    async def _fail(self, operation: Operation, error: OrchestratorError) -> None:
        log.error("operation_failed", kind=operation.kind, code=error.code, error=error.message)
        note = {"code": error.code, "message": error.message, "operationId": operation.operation_id}
        if operation.kind == "restore":
            note["backup"] = str(operation.arguments.get("backupId", ""))
        await self._store.operations.end(
            operation.operation_id, error=error, event=_EVENTS[operation.kind][1], note=note
        )

    async def _back_up(self, operation: Operation) -> _Done:
        began = self._clock.now_ms()
        made, manifest = await self._maker.make(operation.operation_id, self._progress_of(operation))
        retired = await in_thread(self.library.retire)
        numbers = {**_numbers(manifest), "bytes": made.bytes, "ms": self._clock.now_ms() - began}
        pauses = {e.session_id: e.paused_ms for e in manifest.sessions if e.paused_ms is not None}
        return _Done(
            result={"backupId": made.backup_id, **numbers, "pausedMs": pauses, "retired": retired,
                    "skippedSessions": [skipped.session_id for skipped in manifest.skipped]},
            note={"backup": made.backup_id, **numbers, "retired": len(retired)},
        )  # fmt: skip

    async def _export(self, operation: Operation) -> _Done:
        session_id = str(operation.arguments["sessionId"])
        made, manifest = await self._maker.export(operation.operation_id, session_id, self._progress_of(operation))
        found = {"sessionId": session_id, "bytes": made.bytes, "files": _numbers(manifest)["files"]}
        return _Done(result={"backupId": made.backup_id, **found}, note={"backup": made.backup_id, **found})

    async def _restore(self, operation: Operation) -> _Done:
        asked = operation.arguments
        backup = self.library.get(str(asked["backupId"]))
        order = RestoreOrder(
            file=backup.file,
            backup_id=backup.backup_id,
            sessions=tuple(asked["sessions"]),
            force=bool(asked["force"]),
            mode=str(asked["mode"]),
            proxy=str(asked["proxy"]),
            passphrase=self._or_own(self._passphrases.get(operation.operation_id, "")),
        )
        restored = await self._restorer.restore(operation.operation_id, order, self._progress_of(operation))
        return _restore_done(backup.backup_id, restored)

    def _progress_of(self, operation: Operation) -> Any:
        async def tell(phase: str, done: int, total: int, current: str) -> None:
            held = await self._store.operations.report(
                operation.operation_id, phase=phase, done=done, total=total, current=current
            )
            if not held:
                raise OperationInterrupted("Another operation took this one's place.")

        return tell

    async def _keep_alive(self, operation_id: str) -> None:
        while True:
            await asyncio.sleep(ALIVE_MS / 4000)
            with contextlib.suppress(OrchestratorError):
                await self._store.operations.keep_alive(operation_id)

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """A lock on the sessions' folder: also a leader that has just lost its lease may still be at work there."""
        self._settings.sessions_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with try_lock(self._settings.sessions_path / ".backup.lock") as lock:
            yield lock is not None

    # after a kill ----------------------------------------------------------------------------------------------
    async def recover(self) -> None:
        """Before the loops begin: an operation of a dead leader is finished or undone, and its leftovers removed."""
        async with self._alone() as alone:
            if not alone:
                log.warning("backup_work_of_another_process")
                return
            if left := await in_thread(self.library.sweep):
                log.info("unfinished_backups_removed", files=left)
            operation = await self._store.operations.get()
            died = operation if operation and operation.state == "running" else None
            await self._recover_restore(died)
            now = await self._store.operations.get()
            if died and now and now.operation_id == died.operation_id and not now.ended:
                await self._fail(died, OperationInterrupted())

    async def _recover_restore(self, died: Operation | None) -> None:
        async def silent(*_: object) -> None:
            return

        taken_up = await self._restorer.recover(silent)
        if taken_up is None:
            return
        journal, outcome = taken_up
        ours = died if died and died.operation_id == journal.token else None
        if isinstance(outcome, OrchestratorError):
            if ours:
                await self._fail(ours, outcome)
            else:
                await self._store.operations.note("restore.failed", {"backup": journal.backup_id, "code": outcome.code})
            return
        done = _restore_done(journal.backup_id, outcome)
        if not (
            ours
            and await self._store.operations.end(
                ours.operation_id, result=done.result, event="restore.done", note=done.note
            )
        ):
            await self._store.operations.note("restore.done", done.note)


def _numbers(manifest: Manifest) -> dict[str, int]:
    pauses = [entry.paused_ms for entry in manifest.sessions if entry.paused_ms is not None]
    return {
        "sessions": len(manifest.sessions),
        "skipped": len(manifest.skipped),
        "files": sum(len(entry.files) for entry in manifest.sessions),
        "plainBytes": sum(entry.total_bytes for entry in manifest.sessions),
        "longestPauseMs": max(pauses, default=0),
    }


def _restore_done(backup_id: str, restored: Restored) -> _Done:
    note = {"backup": backup_id, "sessions": len(restored.sessions), "withoutSlot": len(restored.without_slot)}
    return _Done(result={"backupId": backup_id, **summary(restored)}, note=note)
