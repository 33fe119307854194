"""The Docker set-up as an operator starts it, by its scripts, with a simulated WhatsApp beside it."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
from pathlib import Path
from typing import Any

from support.docker_engine import ROOT, Engine
from support.system import Http, Refused, System, wait_for

SIMULATOR = "172.28.0.10"
RELAY, CONTROL_PLANE = ("172.29.0.4", 1080), ("172.29.0.3", 3000)
_COMPOSE_FILES = ("docker-compose.yml", "tests/docker/compose.simulator.yml")
_LIMIT_S = 300


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Deployment(System):
    """What a test does with a system, done to containers."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        super().__init__(folder)
        self.engine = engine
        self._env_file = folder / "env"
        self._simulator_dir = folder / "simulator"
        self._port_outside = _free_port()
        self._environ = {
            **engine.environ,
            "DOCKER_CONFIG": os.environ.get("DOCKER_CONFIG", str(_compose_config())),
            "ENV_FILE": str(self._env_file),
            "COMPOSE_FILE": ":".join(str(ROOT / name) for name in _COMPOSE_FILES),
            "SIMULATOR_DIR": str(self._simulator_dir),
            "NODE_IMAGE": "local/node:20-slim",
            "PYTHON_IMAGE": "local/python:3.11-slim",
            "REDIS_IMAGE": "local/redis:7",
            "DOCKER_SOCK": str(engine.socket),
        }

    # the steps of an operator -----------------------------------------------------------------------------------
    def prepare(self) -> None:
        self._simulator_dir.mkdir()
        self._simulator_dir.chmod(0o777)
        self.folder.chmod(0o711)
        folders = {name: self.folder / name.split("_")[1].lower() for name in
                   ("HOST_SESSIONS_DIR", "HOST_BACKUPS_DIR", "HOST_STATE_DIR")}  # fmt: skip
        settings = {**folders, "ORCH_PORT": self._port_outside, "API_KEY": f"wa_{secrets.token_hex(16)}",
                    "PING_INTERVAL_MS": 1000, "LOG_FORMAT": "console"}  # fmt: skip
        self._write(settings)
        self._run(["scripts/setup.sh"])

    def start_simulator(self) -> None:
        self.compose("up", "-d", "--no-build", "simulator")
        ready_file = self._simulator_dir / "ready.json"
        wait_for(ready_file.is_file, what="the simulator")
        ready: dict[str, Any] = json.loads(ready_file.read_text())
        self._write(
            {
                "WA_WEBSOCKET_URL": ready["websocketUrl"],
                "WA_ROOT_PUBLIC_KEY": ready["rootPublicKey"],
                "WA_CA_FILE": ready["caFile"],
                "PROXY_CHECK_TARGET": "localhost:7443",
                **{f"PROXY_URL_{n}": url for n, url in enumerate(ready["proxies"], start=1)},
            }
        )
        self.simulator = Http(f"http://{SIMULATOR}:7000")

    def deploy(self) -> str:
        """What it prints."""
        said = self._run(["scripts/deploy.sh"])
        key = next(line for line in self._env_file.read_text().splitlines() if line.startswith("API_KEY="))
        self.api = Http(f"http://127.0.0.1:{self._port_outside}", {"X-Api-Key": key.split("=", 1)[1]})
        return said

    def down(self) -> None:
        self._run(["scripts/deploy.sh", "down"])
        self.compose("down", "-v", "--remove-orphans")

    # looking ------------------------------------------------------------------------------------------------------
    def compose(self, *words: str) -> str:
        return self._run(["docker", "compose", "--env-file", str(self._env_file), *words])

    def container(self, service: str) -> str:
        return self.compose("ps", "-aq", service).strip()

    def worker(self, session_id: str) -> dict[str, Any]:
        return self.engine.inspect(f"wa_session_{session_id}")

    def wait_ready(self) -> None:
        def answers() -> bool:
            try:
                return bool(self.api.get("/ready")["ready"])
            except (OSError, Refused):
                return False

        wait_for(answers, what="the server to be ready", timeout_s=60)

    def logs(self) -> str:
        return self.compose("logs", "--no-color", "--tail", "60")

    def _write(self, settings: dict[str, Any]) -> None:
        with self._env_file.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=ROOT, env=self._environ, check=False, capture_output=True, text=True, timeout=_LIMIT_S
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-4000:]}")
        return done.stdout


def _compose_config() -> Path:
    return Path(os.environ.get("STATE", "/var/tmp/wa-docker")) / "config"


def install_compose(engine: Engine) -> None:
    """`docker compose`, if the machine has none of its own."""
    probe = subprocess.run(["docker", "compose", "version"], check=False, capture_output=True, env=engine.environ)
    if probe.returncode == 0:
        os.environ.setdefault("DOCKER_CONFIG", str(Path.home() / ".docker"))
        return
    script = ROOT / "scripts" / "docker" / "get-compose.sh"
    subprocess.run([script, _compose_config()], check=True, capture_output=True, timeout=120)
