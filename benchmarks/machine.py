"""What the kernel knows about a process: the CPU time it used, its share of memory, the core it is tied to."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all its threads."""
    total_ns = 0
    try:
        # nanoseconds where the kernel keeps them; a thread may end while we look
        for task in Path(f"/proc/{pid}/task").iterdir():
            total_ns += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _ticks(pid)
    return total_ns / 1e9 if total_ns else _ticks(pid)


def _ticks(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def pss_mb(pid: int) -> float:
    """Memory of a process; what it shares with others is divided among them."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no PSS of {pid}")


def pin(pid: int, cores: Iterable[int]) -> None:
    """Ties a process to cores, where there are several; all its threads."""
    wanted = set(cores) & os.sched_getaffinity(0) or os.sched_getaffinity(0)
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), wanted)


def cores() -> list[int]:
    """All cores we may use, in order; taken once, before anything is pinned."""
    return sorted(_ALL)


_ALL = os.sched_getaffinity(0)


class CpuMeter:
    """CPU seconds that several processes used between `start` and `stop`."""

    def __init__(self, **pids: int) -> None:
        self._pids = pids
        self._began = time.perf_counter()
        self._before = {name: cpu_seconds(pid) for name, pid in pids.items()}

    def stop(self) -> tuple[float, dict[str, float]]:
        """(seconds that passed, CPU seconds by name)."""
        used = {name: cpu_seconds(pid) - self._before[name] for name, pid in self._pids.items()}
        return time.perf_counter() - self._began, used
