"""A whole system with a simulated WhatsApp, started as users start it, and the few calls the benchmarks make."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.world import PROGRAM, await_file, process

T = TypeVar("T")
_NO_LIMITS = {"daily": None, "perMinute": None, "minDelayMs": 0, "maxDelayMs": 0, "hours": None, "burst": None}


class Http:
    def __init__(self, base: str, api_key: str = "") -> None:
        self._base = base
        self._headers = {"content-type": "application/json", "x-api-key": api_key}

    def call(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, method=method, data=data, headers=self._headers)  # noqa: S310 - loopback
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.loads(answer.read() or b"null")


def wait_for(look: Callable[[], T | None], what: str, *, timeout_s: float = 60.0) -> T:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.01)
    raise RuntimeError(f"waited {timeout_s} s for {what}")


class Simulated:
    def __init__(self, folder: Path, ready: dict[str, Any], pid: int) -> None:
        self.data = folder / "data"
        self.pid = pid
        self.api = Http(ready["url"], ready["apiKey"])
        self.simulator = Http(ready["simulator"]["url"])

    def simulator_files(self) -> dict[str, str]:
        """What a client needs to talk to the simulated WhatsApp."""
        found: dict[str, str] = json.loads((self.data / "simulator" / "ready.json").read_text(encoding="utf-8"))
        return found

    def provision(self) -> str:
        return str(self.api.call("POST", "/api/sessions/provision", {})["sessionId"])

    def qr(self, session_id: str) -> str:
        def look() -> str | None:
            try:
                return str(self.api.call("GET", f"/api/sessions/{session_id}/qr")["qr"])
            except urllib.error.HTTPError as error:
                error.close()
                return None

        return wait_for(look, f"a code of {session_id}")

    def scan(self, phone: str, qr: str) -> None:
        self.simulator.call("POST", f"/phones/{phone}/scan", {"qr": qr})

    def await_status(self, session_id: str, status: str) -> None:
        wait_for(
            lambda: self.api.call("GET", f"/api/sessions/{session_id}")["status"] == status, f"{session_id} {status}"
        )

    def unpaced(self, session_id: str) -> None:
        self.api.call("PUT", f"/api/anti-ban/sessions/{session_id}/limits", _NO_LIMITS)

    def worker_pid(self, session_id: str) -> int:
        return int((self.data / "run" / f"{session_id}.pid").read_text(encoding="ascii").split()[0])


@contextlib.contextmanager
def simulated(**settings: str) -> Iterator[Simulated]:
    with tempfile.TemporaryDirectory(prefix="wa-bench-") as name, started(Path(name), **settings) as world:
        yield world


@contextlib.contextmanager
def started(folder: Path, **settings: str) -> Iterator[Simulated]:
    """`up --simulate` on a folder; a second time it goes on where the first was killed."""
    ready, log = folder / "ready.json", folder / "server.log"
    ready.unlink(missing_ok=True)
    command = [str(PROGRAM), "up", "--simulate", "--port", "0", "--data-dir", str(folder / "data"),
               "--ready-file", str(ready)]  # fmt: skip
    with process(command, log=log, env={"TIMEZONE": "UTC", **settings}) as child:
        yield Simulated(folder, await_file(ready, child, log), child.pid)
