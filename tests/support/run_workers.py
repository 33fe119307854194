"""A control plane that does nothing but run workers, to be killed by tests; run as a program.

python run_workers.py <folder> <webhook url> <session id>…
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from wa_orchestrator.logs import configure_logs
from wa_orchestrator.runners.port import WorkerSpec
from wa_orchestrator.runners.process import ProcessRunner


def process_runner(folder: Path, *, command: list[str] | None = None) -> ProcessRunner:
    """Tiny workers on the folders below `folder`."""
    return ProcessRunner(
        sessions_path=folder / "sessions",
        run_path=folder / "run",
        logs_path=folder / "logs",
        command=command or [sys.executable, str(Path(__file__).with_name("tiny_worker.py"))],
        base_env={"PATH": "/usr/bin:/bin"},
        log_bytes=1000,
    )


async def main(folder: Path, url: str, session_ids: list[str]) -> None:
    configure_logs(level="error")  # to stderr: stdout is for the handles
    runner = process_runner(folder)
    await runner.open()
    for session_id in session_ids:
        spec = WorkerSpec(
            session_id=session_id,
            run_order=3,
            proxy_id="proxy_a",
            proxy_url="socks5h://127.0.0.1:1080",
            webhook_url=url,
            webhook_secret="tiny-secret",
            extra_env={"PING_INTERVAL_MS": "0", "TINY_RETRY_MS": "20"},
        )
        print((await runner.start(spec)).handle, flush=True)
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
