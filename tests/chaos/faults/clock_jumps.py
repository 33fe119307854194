"""The clock of control plane, store and workers jumps a day and forty days ahead and back, while messages flow.

Nobody's real clock is touched: libfaketime shows these processes another one. The simulated WhatsApp keeps the real
time, so what it saw is measured against the time that really passed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.faults.fault import Fault, Scene
from chaos.parts import WORKER_ENV
from chaos.traffic import Plan
from support.servers import free_port, server_binary

_LIBRARIES = ("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
              "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1")  # fmt: skip
_JUMPS = ("+1d", "+40d")


class ClockJumps(Fault):
    name = "clock-jumps"
    must_refuse = False
    longest_pause_s = 1.0

    def __init__(self, *, lasting_s: float = 10.0) -> None:
        self._lasting_s = lasting_s
        self._shown = Path()

    def why_not(self) -> str:
        return "" if _library() else "libfaketime is missing (Debian: apt-get install faketime)"

    @contextlib.contextmanager
    def place(self, folder: Path) -> Iterator[Path]:
        self._shown = folder / "clock"
        self._shown.write_text("+0\n")
        faked = {"LD_PRELOAD": _library(), "FAKETIME_TIMESTAMP_FILE": str(self._shown), "FAKETIME_CACHE_DURATION": "1",
                 "FAKETIME_DONT_FAKE_MONOTONIC": "1"}  # fmt: skip
        port = free_port()
        for_workers = " ".join(f"{name}={value}" for name, value in faked.items())
        self.settings = {  # type: ignore[misc]
            **faked,
            "MESSAGE_KEEP_DAYS": "365",  # in forty days ended messages would be forgotten, as they should
            "REDIS_URL": f"redis://127.0.0.1:{port}/0",
            "WORKER_ENV": f"{WORKER_ENV} {for_workers}",
        }
        with _store(port, folder / "store", faked):
            yield folder / "data"

    def strike(self, scene: Scene, plan: Plan) -> None:
        for number, jump in enumerate(_JUMPS):
            scene.until_accepted((number + 1) / (len(_JUMPS) + 2), plan.messages)
            self._show(jump)
            try:
                time.sleep(self._lasting_s)
            finally:
                self._show("+0")
            time.sleep(12.0)  # it is put right at most every ten seconds
        scene.note(f"the clock went {' and '.join(_JUMPS)} ahead, {self._lasting_s:.0f} s each, and back")

    def findings(self, scene: Scene) -> list[str]:
        log = "".join(part.log.read_text(errors="replace") for part in scene.cluster.dispatchers)
        found = [] if log.count("clock_set_back") >= len(_JUMPS) else ["nobody noticed that the clock was set back"]
        # with each jump ahead the pause before one message seems to have passed: nobody can tell that it has not
        early = scene.ledger.over_the_limit
        if early and len(early) <= len(_JUMPS):
            scene.note(f"a jump ahead cut {len(early)} pauses short")
            scene.ledger.over_the_limit = []
        return found

    def _show(self, time_shown: str) -> None:
        unfinished = self._shown.with_suffix(".tmp")
        unfinished.write_text(f"{time_shown}\n")
        unfinished.replace(self._shown)


@contextlib.contextmanager
def _store(port: int, folder: Path, env: dict[str, str]) -> Iterator[None]:
    """A store of the test's own: the embedded one gets a clean environment, and so the real clock."""
    folder.mkdir(parents=True)
    command = [str(server_binary("valkey")), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder),
               "--appendonly", "yes", "--appendfsync", "always", "--save", ""]  # fmt: skip
    with (folder / "store.log").open("wb") as log:
        process = subprocess.Popen(command, env={"PATH": os.environ["PATH"], **env}, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


def _library() -> str:
    return next((path for path in _LIBRARIES if Path(path).is_file()), "")
