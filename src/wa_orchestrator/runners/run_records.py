"""What each worker process was started with, on disk, so that the next control plane knows those that still run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from wa_orchestrator.runners.port import RunningWorker, WorkerSpec


def handle_of(pid: int) -> str:
    """A worker process as people see it."""
    return f"pid {pid}"


class RunRecords:
    """One `<session>.json` per run, without secrets, and beside it the `<session>.pid` that the worker wrote."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pid_file(self, session_id: str) -> Path:
        return self._path / f"{session_id}.pid"

    def write(self, spec: WorkerSpec, *, started_at: int) -> None:
        """Before the worker is started: a record without a process is harmless, the other way round is not."""
        self.pid_file(spec.session_id).unlink(missing_ok=True)
        values = {
            "session_id": spec.session_id,
            "run_order": spec.run_order,
            "proxy_id": spec.proxy_id,
            "started_at": started_at,
        }
        target = self._record_file(spec.session_id)
        unfinished = target.with_name(f"{target.name}.tmp")
        with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(values, file)
        unfinished.replace(target)

    def read(self, session_id: str, *, pid: int) -> RunningWorker | None:
        """The record as a running worker; None when there is none or it is damaged."""
        try:
            values = json.loads(self._record_file(session_id).read_text(encoding="utf-8"))
            return RunningWorker(
                session_id=session_id,
                run_order=int(values["run_order"]),
                proxy_id=str(values["proxy_id"]),
                handle=handle_of(pid),
                started_at=int(values["started_at"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def remove(self, session_id: str) -> None:
        self.pid_file(session_id).unlink(missing_ok=True)
        self._record_file(session_id).unlink(missing_ok=True)

    def session_ids(self) -> Iterator[str]:
        for file in sorted(self._path.glob("*.json")):
            yield file.stem

    def _record_file(self, session_id: str) -> Path:
        return self._path / f"{session_id}.json"
