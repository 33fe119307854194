"""A whole system as a user starts it: `wa-orchestrator up` as a process, its API, and the simulated WhatsApp."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

PROGRAM = Path(sys.executable).parent / "wa-orchestrator"
T = TypeVar("T")
_NO_LIMITS = {"daily": None, "perMinute": None, "minDelayMs": 0, "maxDelayMs": 0, "hours": None, "burst": None}


class Refused(Exception):
    """The server answered with an error."""

    def __init__(self, status: int, error: dict[str, Any]) -> None:
        super().__init__(f"{status} {error.get('code')}: {error.get('message')}")
        self.status = status
        self.code = error.get("code")


def wait_for(look: Callable[[], T | None], *, what: str, timeout_s: float = 30.0, pause_s: float = 0.05) -> T:
    """The first truthy answer."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s} s for {what}")
        time.sleep(pause_s)


def pid_in(file: Path) -> int:
    """The process that a pid file names; 0 when there is none."""
    try:
        return int(file.read_text().split()[0])
    except (OSError, IndexError, ValueError):
        return 0


def _told(body: bytes) -> Any:
    """What the server says; while it is away something else on the way may answer, in words of its own."""
    try:
        return json.loads(body or b"{}")
    except ValueError:
        return {"error": {"code": "NOT_OUR_SERVER", "message": body[:200].decode(errors="replace")}}


class Http:
    def __init__(self, base: str, headers: dict[str, str] | None = None) -> None:
        self.base = base
        self._headers = headers or {}

    def call(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(
            self.base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **self._headers, **given},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                told = _told(error.read())
            raise Refused(error.code, told.get("error", {})) from None

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        return self.call("POST", path, {} if body is None else body, **headers)


class System:
    """Started as its README says; stopped or killed as the test wants."""

    def __init__(self, folder: Path, *, simulate: bool = True, **settings: object) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "server.log"
        self._simulate = simulate
        self._settings = {name: str(value) for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None
        self.api = Http("")
        self.simulator = Http("")
        self.ready: dict[str, Any] = {}

    def start(self, *more: str) -> System:
        self.folder.mkdir(parents=True, exist_ok=True)
        ready_file = self.folder / "ready.json"
        ready_file.unlink(missing_ok=True)
        command = [str(PROGRAM), "up", "--data-dir", str(self.data), "--port", self._port(), "--ready-file",
                   str(ready_file), *(["--simulate"] if self._simulate else []), *more]  # fmt: skip
        env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "LANG": "C.UTF-8", **self._settings}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip
        wait_for(lambda: ready_file.is_file() or self._process_ended(), what="the server to start", timeout_s=60)
        self.ready = json.loads(ready_file.read_text())
        self.api = Http(self.ready["url"], {"X-Api-Key": self.ready["apiKey"]})
        if self._simulate:
            self.simulator = Http(self.ready["simulator"]["url"])
        return self

    def _port(self) -> str:
        """The same port again after a restart: adopted workers know it."""
        url = self.ready.get("url")
        return url.rsplit(":", 1)[1] if url else "0"

    def _process_ended(self) -> bool:
        if self._process and self._process.poll() is not None:
            tail = "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])
            raise AssertionError(f"the server ended by itself:\n{tail}")
        return False

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process:
            self._process.send_signal(how)
            self._process.wait(timeout=60)
            self._process = None

    def __enter__(self) -> System:
        return self.start() if self._process is None else self

    def __exit__(self, *_: object) -> None:
        # a system that was killed leaves its store, workers and simulator running on purpose: start to stop them
        if self._process is None:
            self.start()
        self.stop()

    # what tests do again and again -------------------------------------------------------------------------------
    def provision(self, **wanted: Any) -> str:
        return str(self.api.post("/api/sessions/provision", wanted)["sessionId"])

    def session(self, session_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"/api/sessions/{session_id}")
        return found

    def qr(self, session_id: str, *, timeout_s: float = 30.0) -> str:
        def look() -> str | None:
            try:
                return str(self.api.get(f"/api/sessions/{session_id}/qr")["qr"])
            except Refused as error:
                if error.code == "QR_NOT_READY":
                    return None
                raise

        return wait_for(look, what=f"a code of {session_id}", timeout_s=timeout_s)

    def scan(self, session_id: str, phone: str) -> None:
        self.simulator.post(f"/phones/{phone}/scan", {"qr": self.qr(session_id)})

    def wait_status(self, session_id: str, *statuses: str, timeout_s: float = 30.0) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            session = self.session(session_id)
            return session if session["status"] in statuses else None

        return wait_for(look, what=f"{session_id} to be {'/'.join(statuses)}", timeout_s=timeout_s)

    def connected(self, phone: str, **wanted: Any) -> str:
        """A new session, linked to a simulated phone."""
        session_id = self.provision(**wanted)
        self.scan(session_id, phone)
        self.wait_status(session_id, "connected")
        return session_id

    def unpaced(self, session_id: str) -> None:
        self.api.call("PUT", f"/api/anti-ban/sessions/{session_id}/limits", _NO_LIMITS)

    def events(self, session_id: str, kind: str | None = None) -> list[dict[str, Any]]:
        """Newest first."""
        found = self.api.get(f"/api/sessions/{session_id}/events?limit=500")["events"]
        return [e for e in found if kind is None or e["type"] == kind]

    def worker_pid(self, session_id: str) -> int:
        """0: it is being replaced just now."""
        return pid_in(self.data / "run" / f"{session_id}.pid")

    def wait_new_worker(self, session_id: str, old: int) -> int:
        look = lambda: pid if (pid := self.worker_pid(session_id)) not in {0, old} else 0  # noqa: E731
        return wait_for(look, what=f"a new worker of {session_id}", timeout_s=60)

    def proxy_port(self, session_id: str) -> int:
        return int(self.session(session_id)["proxy"]["port"])

    def inbox(self, phone: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.simulator.get(f"/phones/{phone}/inbox")
        return found

    def clear(self) -> None:
        """As at the beginning, for the next test: no faults, no sessions, proxies that work."""
        self.fault(clear=True)
        for session in self.api.get("/api/sessions?limit=1000")["sessions"]:
            self.api.call("DELETE", f"/api/sessions/{session['sessionId']}?forget=true")
        for proxy in self.api.get("/api/v1/proxies")["proxies"]:
            self.api.post(f"/api/v1/proxies/{proxy['id']}/check")

    def fault(self, **fault: object) -> None:
        self.simulator.post("/faults", fault)
