"""Ends every detached program that a test left behind, found by the pid files below a folder."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from wa_orchestrator.processes.detached import find


async def end_all_below(folder: Path) -> None:
    for pid_file in folder.rglob("*.pid"):
        process = find(pid_file)
        if process is not None:
            process.signal(signal.SIGKILL)
            await process.wait()


def open_files() -> dict[str, str]:
    """Every open descriptor of this process and what it points to."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            found[link.name] = str(link.readlink())
        except OSError:  # the descriptor that listed the folder
            continue
    return found


def environment_of(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(entry).split("=", 1) for entry in entries if entry)
