"""A whole control plane whose workers are only pretended: their requests come from the benchmark."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import uvloop

from wa_orchestrator import app
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.runners.port import Runner, RunningWorker, WorkerExit, WorkerSpec
from wa_orchestrator.settings import Settings, load_settings


class PretendedRunner:
    """Says of every worker that it runs; none does."""

    outlives_server = False

    def __init__(self) -> None:
        self._running: dict[str, RunningWorker] = {}

    async def open(self) -> list[RunningWorker]:
        return []

    async def start(self, spec: WorkerSpec) -> RunningWorker:
        worker = RunningWorker(session_id=spec.session_id, run_order=spec.run_order, proxy_id=spec.proxy_id,
                               handle="pretended", started_at=SystemClock().now_ms())  # fmt: skip
        self._running[spec.session_id] = worker
        return worker

    async def stop(self, session_id: str, *, timeout_s: float = 12.0) -> None:
        self._running.pop(session_id, None)

    async def poll(self, session_id: str) -> RunningWorker | None:
        return self._running.get(session_id)

    async def list_running(self) -> list[RunningWorker]:
        return list(self._running.values())

    def on_exit(self, tell: Callable[[WorkerExit], None]) -> None:
        """None ever ends."""

    async def close(self, *, stop_workers: bool) -> None:
        """Nothing to end."""


def _pretended(_settings: Settings, **_: object) -> Runner:
    return PretendedRunner()


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    vars(app)["chosen_runner"] = _pretended
    async with app.running_server(load_settings(os.environ, port=0)) as server:
        Path(os.environ["READY_FILE"]).write_text(server.ready_file(), encoding="utf-8")
        await stop.wait()


if __name__ == "__main__":
    configure_logs(level="error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
