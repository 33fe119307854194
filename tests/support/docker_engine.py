"""A real Docker engine for tests: the one DOCKER_HOST names, else a private one that is started here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = ROOT / "scripts" / "docker" / "engine.sh"
_LIMIT_S = 600
WORKER_IMAGE = "whatsapp-worker-image:1.0.0"
CONTROL_IMAGE = "whatsapp-orchestrator:1.0.0"
TINY_IMAGE = "wa-test-tiny-worker:1"

# The launcher of the real image around the tests' own small worker.
_TINY = """
FROM {base}
COPY launch.sh tiny_worker.py /app/
RUN mkdir -p /app/sessions
USER 1000:1000
ENTRYPOINT ["/app/launch.sh"]
CMD ["python3", "/app/tiny_worker.py"]
"""


class NoEngine(Exception):
    """Why there is none."""


class Engine:
    def __init__(self, host: str, *, private: bool) -> None:
        self.host = host
        self.private = private
        self.environ = {**os.environ, "DOCKER_HOST": host, "DOCKER_BUILDKIT": "0"}

    @property
    def socket(self) -> Path:
        return Path(self.host.removeprefix("unix://"))

    def docker(self, *words: str, check: bool = True, input_: str | None = None) -> str:
        done = subprocess.run(
            ["docker", *words], env=self.environ, check=False, capture_output=True, text=True, timeout=_LIMIT_S,
            input=input_,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(f"docker {' '.join(words[:3])} …: {done.stderr.strip()[-2000:]}")
        return done.stdout.strip()

    def inspect(self, name: str) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(self.docker("inspect", name))
        return found[0]

    def has_image(self, tag: str) -> bool:
        return bool(self.docker("images", "-q", tag))

    def remove_containers(self, label: str) -> None:
        found = self.docker("ps", "-aq", "--filter", f"label={label}").split()
        if found:
            self.docker("rm", "-f", "-v", *found)

    def build(self, tag: str, *, base: str, file: Path, context: Path) -> None:
        self.docker("build", "-q", "--build-arg", f"BASE_IMAGE={base}", "-f", str(file), "-t", tag, str(context))

    def build_tiny(self, folder: Path) -> None:
        shutil.copy(ROOT / "worker" / "launch.sh", folder)
        shutil.copy(ROOT / "tests" / "support" / "tiny_worker.py", folder)
        (folder / "Dockerfile").write_text(_TINY.format(base="local/python:3.11-slim"))
        self.docker("build", "-q", "-t", TINY_IMAGE, str(folder))

    def restart(self, *, containers_live_on: bool = True) -> None:
        """The private engine goes away and comes back; containers live on, or end and are started again by it."""
        assert self.private
        self.stop()
        _run_script("daemon", LIVE_RESTORE="1" if containers_live_on else "0")

    def kill(self) -> None:
        """The private engine, and it alone, ends without a word."""
        assert self.private
        pid_file = self.socket.parent / "docker.pid"
        pid = int(pid_file.read_text())
        assert Path(f"/proc/{pid}/comm").read_text().strip() == "dockerd"
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 20
        while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
            time.sleep(0.05)

    def stop(self) -> None:
        _run_script("stop")


def start_engine(uncaptured: Callable[[], AbstractContextManager[None]]) -> Engine:
    """Raises NoEngine with a sentence. The first start on a machine takes two minutes, so it shows what it does."""
    given = os.environ.get("DOCKER_HOST", "")
    if not _SCRIPT.is_file():
        raise NoEngine(f"{_SCRIPT} is missing")
    if not given and os.geteuid() != 0:
        raise NoEngine("only root can start a Docker engine; set DOCKER_HOST to use one that runs")
    if not given and shutil.which("apt-get") is None and shutil.which("dockerd") is None:
        raise NoEngine("dockerd is not installed, and this is no Debian where it could be")
    began = time.monotonic()
    with uncaptured():
        print("\na Docker engine and base images …", flush=True)
        done = subprocess.run([_SCRIPT], check=False, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S)
        print(f"Docker engine: {time.monotonic() - began:.0f} s", flush=True)
    if done.returncode != 0:
        raise NoEngine("scripts/docker/engine.sh could not start one; its output is above")
    host = done.stdout.strip().removeprefix("export DOCKER_HOST=")
    return Engine(host, private=host != given)


def _run_script(word: str, **settings: str) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"} | settings
    subprocess.run([_SCRIPT, word], check=True, capture_output=True, timeout=120, env=environ)
