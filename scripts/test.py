"""Runs every check and test in turn, each with its time; stops at the first that fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = [sys.executable, "-m", "pytest", "-q"]
NPM = [str(Path(sys.executable).parent / "npm"), "run", "--silent"]

# the quick ones first: a mistake should be told in seconds
STEPS: list[tuple[str, list[str]]] = [
    ("Python lint", [sys.executable, "-m", "ruff", "check", "--quiet", "."]),
    ("Python format", [sys.executable, "-m", "ruff", "format", "--check", "--quiet", "."]),
    ("Python types", [sys.executable, "-m", "mypy"]),
    ("TypeScript types", [*NPM, "check"]),
    ("unit tests", [*PYTEST, "tests/unit"]),
    ("worker tests", [*NPM, "test", "-w", "worker"]),
    ("simulator tests", [*NPM, "test", "-w", "simulator"]),
    ("integration tests", [*PYTEST, "tests/integration"]),
    ("end-to-end tests", [*PYTEST, "tests/e2e"]),
    ("browser tests", [*PYTEST, "tests/browser"]),
    # they say what they do: the first run on a machine makes base images and takes minutes
    ("Docker tests", [*PYTEST, "tests/docker"]),
]


def warn_without_browser(title: str) -> None:
    """A dashboard that nobody looked at is not tested: that must not pass unnoticed."""
    if title == "browser tests" and not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("!" * 100)
        print("!! CHROMIUM IS NOT INSTALLED: the dashboard is NOT tested in a browser on this machine.")
        print("!! Debian and Ubuntu: sudo apt-get install chromium chromium-driver fonts-noto-core")
        print("!" * 100, flush=True)


def main() -> None:
    began = time.monotonic()
    env = {**os.environ, "PYTHONPATH": ""}
    for title, command in STEPS:
        print(f"\n== {title}", flush=True)
        warn_without_browser(title)
        start = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
        print(f"== {title}: {'ok' if code == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
        if code != 0:
            raise SystemExit(code)
    print(f"\nall checks and tests passed in {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
