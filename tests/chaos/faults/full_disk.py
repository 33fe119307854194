"""The disk of the data folder is full: store, credentials, spools and logs all lie there."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.faults.fault import Fault, Scene
from chaos.traffic import Plan
from support.system import wait_for

_SIZE_MB = 128


class FullDisk(Fault):
    name = "full-disk"
    refusals = frozenset({"503 STORE_UNAVAILABLE"})

    def __init__(self, *, lasting_s: float = 12.0) -> None:
        self._lasting_s = lasting_s
        self._data = Path()

    def why_not(self) -> str:
        if os.geteuid() != 0:
            return "a small disk of its own can only be mounted by root"
        return "" if shutil.which("mount") else "the command `mount` is missing"

    @contextlib.contextmanager
    def place(self, folder: Path) -> Iterator[Path]:
        disk = folder / "disk"
        disk.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SIZE_MB}m,mode=755", "tmpfs", str(disk)], check=True)
        self._data = disk / "data"
        try:
            yield self._data
        finally:
            # lazily: whatever still has a file open there ends with the round
            subprocess.run(["umount", "-l", str(disk)], check=True)

    def strike(self, scene: Scene, plan: Plan) -> None:
        scene.until_accepted(0.3, plan.messages)
        ballast = self._data.parent / "ballast"
        until = time.monotonic() + self._lasting_s
        with ballast.open("wb") as file:
            while time.monotonic() < until:
                _fill(file.fileno())  # again and again: a log that is turned over makes room
                time.sleep(0.02)
        ballast.unlink()
        scene.note(f"disk full for {self._lasting_s:.0f} s")

    def prove(self, scene: Scene) -> None:
        """Credentials on disk are whole: every worker is killed and connects with them."""
        before = scene.cluster.worker_pids()
        for pid in before.values():
            os.kill(pid, signal.SIGKILL)

        def all_new() -> bool:
            now = scene.cluster.worker_pids()
            return now.keys() == before.keys() and all(now[name] not in {0, before[name]} for name in now)

        wait_for(all_new, what="new workers", timeout_s=60)


def _fill(fd: int) -> None:
    for size in (1 << 20, 4096):
        with contextlib.suppress(OSError):
            while True:
                os.write(fd, b"\0" * size)
