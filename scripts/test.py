"""Runs every check and test, each with its time; stops at the first that fails.

The long ones go in two lanes side by side: most of their time is waiting. TEST_LANES=1 runs them one after the other.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "-q"]
_SIGN_OF_LIFE_S = 30.0
NPM = [str(Path(sys.executable).parent / "npm"), "run", "--silent"]


@dataclass(frozen=True)
class Step:
    title: str
    command: list[str]


# the quick ones first: a mistake should be told in seconds
QUICK = [
    Step("Python lint", [sys.executable, "-m", "ruff", "check", "--quiet", "."]),
    Step("Python format", [sys.executable, "-m", "ruff", "format", "--check", "--quiet", "."]),
    Step("Python types", [sys.executable, "-m", "mypy"]),
    Step("TypeScript types", [*NPM, "check"]),
    Step("unit tests", [*PYTEST, "tests/unit"]),
]
LANES = [
    [Step("integration tests", [*PYTEST, "tests/integration"]), Step("browser tests", [*PYTEST, "tests/browser"])],
    [
        Step("worker tests", [*NPM, "test", "-w", "worker"]),
        Step("simulator tests", [*NPM, "test", "-w", "simulator"]),
        Step("end-to-end tests", [*PYTEST, "tests/e2e"]),
    ],
]
# they say what they do: the first run on a machine makes base images and takes minutes
LAST = [Step("Docker tests", [*PYTEST, "tests/docker"])]


class Failed(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class Run:
    """Steps, one after the other or lanes of them side by side; the first failure ends all."""

    def __init__(self) -> None:
        self._env = {**os.environ, "PYTHONPATH": ""}
        self._speaking = threading.Lock()
        self._running: dict[subprocess.Popen[bytes], str] = {}
        self._failed: Failed | None = None

    def one_by_one(self, steps: Sequence[Step]) -> None:
        for step in steps:
            self._say(f"\n== {step.title}")
            warn_without_browser(step)
            began = time.monotonic()
            code = subprocess.run(step.command, cwd=ROOT, env=self._env, check=False).returncode
            self._tell(step, code, began)

    def side_by_side(self, lanes: Sequence[Sequence[Step]]) -> None:
        threads = [threading.Thread(target=self._lane, args=(lane,)) for lane in lanes]
        for thread in threads:
            thread.start()
        try:
            self._wait_for(threads)
        except KeyboardInterrupt:
            self._failed = Failed(130)
            self._end_others()
            self._wait_for(threads)
        if self._failed:
            raise self._failed

    def _wait_for(self, threads: Sequence[threading.Thread]) -> None:
        began = time.monotonic()
        while alive := [thread for thread in threads if thread.is_alive()]:
            alive[0].join(_SIGN_OF_LIFE_S)
            if alive[0].is_alive() and not self._failed:
                titles = " and ".join(sorted(self._running.values()))
                self._say(f"   … {time.monotonic() - began:.0f} s: {titles} are running")

    def _lane(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if self._failed:
                return
            self._say(f"\n== {step.title} …")
            warn_without_browser(step)
            try:
                self._kept(step)
            except Failed as failed:
                if not self._failed:
                    self._failed = failed
                    self._end_others()
                return

    def _kept(self, step: Step) -> None:
        """What it prints comes in one piece when it is done: two at once would be unreadable."""
        began = time.monotonic()
        with tempfile.TemporaryFile() as output:
            child = subprocess.Popen(step.command, cwd=ROOT, env=self._env, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=subprocess.STDOUT, start_new_session=True)  # fmt: skip
            self._running[child] = step.title
            code = child.wait()
            del self._running[child]
            if self._failed:
                return  # ended because of the other lane
            output.seek(0)
            with self._speaking:
                sys.stdout.flush()
                shutil.copyfileobj(output, sys.stdout.buffer)
            self._tell(step, code, began)

    def _end_others(self) -> None:
        for child in list(self._running):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGINT)

    def _tell(self, step: Step, code: int, began: float) -> None:
        self._say(f"== {step.title}: {'ok' if code == 0 else 'FAILED'} in {time.monotonic() - began:.0f} s")
        if code != 0:
            raise Failed(code)

    def _say(self, text: str) -> None:
        with self._speaking:
            print(text, flush=True)


def warn_without_browser(step: Step) -> None:
    """A dashboard that nobody looked at is not tested: that must not pass unnoticed."""
    if step.title == "browser tests" and not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("!" * 100)
        print("!! CHROMIUM IS NOT INSTALLED: the dashboard is NOT tested in a browser on this machine.")
        print("!! Debian and Ubuntu: sudo apt-get install chromium chromium-driver fonts-noto-core")
        print("!" * 100, flush=True)


def main() -> None:
    began = time.monotonic()
    run = Run()
    try:
        run.one_by_one(QUICK)
        if os.environ.get("TEST_LANES") == "1":
            run.one_by_one([step for lane in LANES for step in lane])
        else:
            run.side_by_side(LANES)
        run.one_by_one(LAST)
    except Failed as failed:
        raise SystemExit(failed.code) from None
    print(f"\nall checks and tests passed in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
