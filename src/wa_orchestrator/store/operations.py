"""The one backup, restore or export that may be under way: ordered by any orchestrator, done by the leader."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Any

import msgspec

from wa_orchestrator.clock import Clock, iso
from wa_orchestrator.errors import OrchestratorError, by_code
from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection

# An order nobody takes up, or work whose process died, blocks the next one no longer than this. Renewed while it runs.
ALIVE_MS = 20_000


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A backup, restore or export with its progress."""

    operation_id: str
    kind: str  # backup, restore, export
    state: str  # ordered, running, done, failed
    phase: str = ""
    done: int = 0
    total: int = 0
    current: str = ""
    ordered_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    alive_until: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.state in {"done", "failed"}

    def view(self) -> dict[str, Any]:
        """As clients see it."""
        return {
            "operationId": self.operation_id,
            "kind": self.kind,
            "state": self.state,
            "phase": self.phase,
            "done": self.done,
            "total": self.total,
            "current": self.current or None,
            "orderedAt": iso(self.ordered_at),
            "endedAt": iso(self.ended_at),
            "result": self.result or None,
            "error": self.error or None,
        }

    def raise_error(self) -> None:
        """Raises why it failed, as the error it was at the leader."""
        kind = by_code().get(str(self.error.get("code")), OrchestratorError)
        raise kind(self.error.get("message"), details=self.error.get("details"))


class OperationStore:
    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {"now": self._clock.now_ms(), **arguments})

    async def order(self, kind: str, arguments: dict[str, Any]) -> str:
        """Its id; raises BackupBusy while another is under way."""
        operation_id = f"op_{secrets.token_hex(6)}"
        await self._run(
            "order_operation",
            id=operation_id,
            kind=kind,
            arguments=msgspec.json.encode(arguments).decode(),
            aliveMs=ALIVE_MS,
        )
        return operation_id

    async def claim(self) -> Operation | None:
        """The ordered one, for whoever leads; None when there is none."""
        answer = await self._run("claim_operation", aliveMs=ALIVE_MS)
        return await self.get() if answer["claimed"] else None

    async def report(
        self, operation_id: str, *, phase: str = "", done: int = 0, total: int = 0, current: str = ""
    ) -> bool:
        """False: it is not ours any more."""
        progress = {"phase": phase, "done": done, "total": total, "current": current}
        answer = await self._run("report_operation", id=operation_id, set=progress, aliveMs=ALIVE_MS)
        return bool(answer["held"])

    async def keep_alive(self, operation_id: str) -> bool:
        answer = await self._run("report_operation", id=operation_id, aliveMs=ALIVE_MS)
        return bool(answer["held"])

    async def end(
        self,
        operation_id: str,
        *,
        result: dict[str, Any] | None = None,
        error: OrchestratorError | None = None,
        event: str,
        note: dict[str, Any],
    ) -> bool:
        """Ends it and tells the journal in the same step."""
        told = {"code": error.code, "message": error.message, "details": error.details} if error else {}
        answer = await self._run(
            "end_operation",
            id=operation_id,
            state="failed" if error else "done",
            result=msgspec.json.encode(result or {}).decode(),
            failure=msgspec.json.encode(told).decode(),
            event=event,
            data=msgspec.json.encode(note).decode(),
        )
        return bool(answer["held"])

    async def get(self) -> Operation | None:
        """The one under way, or the last one."""
        found: dict[str, str] = await self._connection.call("HGETALL", keys.BACKUPS_OPERATION())
        return _as_operation(found) if found else None

    async def note(self, event: str, data: dict[str, Any]) -> None:
        """Tells the journal of something that is no operation."""
        await self._run("note_event", event=event, data=msgspec.json.encode(data).decode())


def _as_operation(found: dict[str, str]) -> Operation:
    def number(name: str) -> int:
        return int(float(found.get(name) or 0))

    return Operation(
        operation_id=found["id"],
        kind=found["kind"],
        state=found["state"],
        phase=found.get("phase", ""),
        done=number("done"),
        total=number("total"),
        current=found.get("current", ""),
        ordered_at=number("orderedAt"),
        started_at=number("startedAt"),
        ended_at=number("endedAt"),
        alive_until=number("aliveUntil"),
        arguments=msgspec.json.decode(found.get("arguments") or "{}"),
        result=msgspec.json.decode(found.get("result") or "{}"),
        error=msgspec.json.decode(found.get("failure") or "{}"),
    )
