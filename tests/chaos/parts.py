"""The parts of a running system that can be killed and started again, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import redis

from support.system import PROGRAM, Http, pid_in, wait_for

WORKER_ENV = "ACK_TIMEOUT_MS=4000 RECONNECT_BASE_MS=100 RECONNECT_MAX_MS=1000 CLAIM_WAIT_MS=5000"
_START_S = 60


class Part:
    """One process of ours: started, killed with -9, started again on the same port."""

    def __init__(self, name: str, folder: Path, arguments: list[str], env: dict[str, str], *, port: bool) -> None:
        self.name = name
        self.ready_file = folder / f"{name}.ready.json"
        self._folder = folder
        self._arguments = arguments
        self._env = env
        self._has_port = port
        self._port = "0"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def start(self) -> None:
        self.ready_file.unlink(missing_ok=True)
        command = [str(PROGRAM), *self._arguments, "--ready-file", str(self.ready_file)]
        if self._has_port:
            command += ["--port", self._port]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._env, cwd=self._folder,
                start_new_session=True,
            )  # fmt: skip

    def wait_ready(self) -> dict[str, object]:
        def ready() -> bool:
            process = self._process
            if process and process.poll() is not None:
                # the store may have been away at the wrong moment: as a service manager would, start it again
                self.start()
            return self.ready_file.is_file()

        wait_for(ready, what=f"{self.name} to be ready", timeout_s=_START_S, pause_s=0.1)
        found: dict[str, object] = json.loads(self.ready_file.read_text())
        self.url = str(found.get("url", ""))
        if self.url:
            self._port = self.url.rsplit(":", 1)[1]
        return found

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def log(self) -> Path:
        return self._folder / f"{self.name}.log"

    def end(self, how: signal.Signals) -> None:
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(how)
            self._process.wait(timeout=60)
            self._process = None


class Cluster:
    """An orchestrator with simulated WhatsApp, several gateways and dispatchers, all on one embedded store."""

    def __init__(
        self,
        folder: Path,
        *,
        gateways: int = 2,
        dispatchers: int = 2,
        data: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.data = data or folder / "data"
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "SIMULATOR_PROXIES": "8",
            "PROXY_TIMEOUT_MS": "2000",
            "MESSAGE_LEASE_MS": "6000",
            "PROVISIONING_INTERVAL_MS": "500",
            "MONITOR_INTERVAL_MS": "3000",
            "WORKER_ENV": WORKER_ENV,
            **(settings or {}),
        }
        place = ["--data-dir", str(self.data)]
        self.orchestrator = Part(
            "orchestrator", folder, ["up", "--simulate", "--roles", "orchestrator", *place], env, port=True
        )
        self.gateways = [Part(f"gateway{n}", folder, ["gateway", *place], env, port=True) for n in range(gateways)]
        self.dispatchers = [
            Part(f"dispatcher{n}", folder, ["dispatcher", *place], env, port=False) for n in range(dispatchers)
        ]
        self.key = ""
        self.simulator = Http("")

    @property
    def parts(self) -> list[Part]:
        return [self.orchestrator, *self.gateways, *self.dispatchers]

    @property
    def api(self) -> Http:
        return Http(self.orchestrator.url, {"X-Api-Key": self.key})

    def gateway(self, chance: random.Random) -> Http:
        return Http(chance.choice(self.gateways).url, {"X-Api-Key": self.key})

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.orchestrator.start()
        ready = self.orchestrator.wait_ready()
        self.key = str(ready["apiKey"])
        simulator = ready["simulator"]
        assert isinstance(simulator, dict)
        self.simulator = Http(simulator["url"])
        for part in self.parts[1:]:
            part.start()
        for part in self.parts[1:]:
            part.wait_ready()

    def stop(self) -> None:
        for part in reversed(self.parts):
            if part is not self.orchestrator:
                part.end(signal.SIGTERM)
        if not self.orchestrator.alive():
            self.orchestrator.start()
            self.orchestrator.wait_ready()
        self.orchestrator.end(signal.SIGTERM)

    # what is not our own child -----------------------------------------------------------------------------------
    def kill_worker(self, chance: random.Random) -> bool:
        files = sorted((self.data / "run").glob("*.pid"))
        return bool(files) and _kill(chance.choice(files))

    def kill_store(self) -> bool:
        return _kill(self.store_pid_file)

    @property
    def store_pid_file(self) -> Path:
        return self.data / "store" / "valkey.pid"

    def store(self) -> redis.Redis:
        """A client of the embedded store, for faults that are made inside it."""
        folder = self.data / "store"
        port, password = (folder / "port").read_text(), (folder / "password").read_text().strip()
        return redis.Redis(port=int(port), password=password, decode_responses=True, socket_timeout=5)

    def worker_pids(self) -> dict[str, int]:
        return {file.stem: pid_in(file) for file in sorted((self.data / "run").glob("*.pid"))}

    def proxies_in_use(self) -> list[int]:
        return sorted({int(p["port"]) for p in self.api.get("/api/v1/proxies")["proxies"] if p["sessions"]})


def _kill(pid_file: Path) -> bool:
    """Kills the process that wrote the file, if it still is that process."""
    try:
        pid, started, _ = pid_file.read_text().split()
        stat = Path(f"/proc/{pid}/stat").read_text()
        if stat.rpartition(")")[2].split()[19] != started:
            return False
        os.kill(int(pid), signal.SIGKILL)
    except (OSError, ValueError):
        return False
    return True
