"""Workers cannot reach the control plane, twice: for a moment, and for longer than the watchdog waits for a ping.

The whole cluster lives in a network namespace of its own, where packets to the orchestrator's port are dropped.
WhatsApp, the proxies and the store stay reachable: workers go on sending what they have, and nobody can be told.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from chaos.faults.fault import Fault, Scene
from chaos.traffic import Plan
from support.netns import why_no_namespaces

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET; Python knows it from 3.12 on
_PING_TIMEOUT_S = 15


class Partition(Fault):
    name = "partition"
    settings = {  # noqa: RUF012
        "PING_INTERVAL_MS": "1000",
        "PING_TIMEOUT_MS": str(_PING_TIMEOUT_S * 1000),
        "WATCHDOG_INTERVAL_MS": "1000",
    }
    must_refuse = False  # gateways are on the store's side: everything is accepted
    workers_stay = False
    longest_pause_s = 1.5

    def __init__(self, *, short_s: float = 10.0, long_s: float = 25.0) -> None:
        self._short_s = short_s
        self._long_s = long_s
        self._moved: list[str] = []

    def why_not(self) -> str:
        if shutil.which("iptables") is None:
            return "the command `iptables` is missing (Debian: apt-get install iptables)"
        return why_no_namespaces()

    @contextlib.contextmanager
    def place(self, folder: Path) -> Iterator[Path]:
        """Whatever this thread starts from here on, threads and processes, is inside."""
        libc = ctypes.CDLL(None, use_errno=True)
        with open("/proc/thread-self/ns/net", "rb") as home:  # noqa: PTH123
            _check(libc.unshare(_NEW_NETWORK))
            try:
                subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
                yield folder / "data"
            finally:
                _check(libc.setns(home.fileno(), _NEW_NETWORK))

    def strike(self, scene: Scene, plan: Plan) -> None:
        cluster = scene.cluster
        port = cluster.orchestrator.url.rsplit(":", 1)[1]
        before = {s["sessionId"]: s["proxy"]["id"] for s in cluster.api.get("/api/sessions")["sessions"]}
        workers = cluster.worker_pids()
        scene.until_accepted(0.2, plan.messages)
        with _cut_off(port):
            time.sleep(self._short_s)
        if cluster.worker_pids() != workers:
            self._moved.append(f"{self._short_s:.0f} s replaced workers: {workers} → {cluster.worker_pids()}")
        scene.until_accepted(0.5, plan.messages)
        with _cut_off(port):
            time.sleep(self._long_s)
        sessions = cluster.api.get("/api/sessions")["sessions"]
        for session in sessions:
            if session["proxy"]["id"] != before[session["sessionId"]]:
                self._moved.append(f"{session['sessionId']} was moved to another proxy")
            # each gets a full time-out before it is judged again
            if session["restarts"] > self._long_s // _PING_TIMEOUT_S + 1:
                self._moved.append(f"{session['sessionId']} was restarted {session['restarts']} times")
        restarts = sum(session["restarts"] for session in sessions)
        scene.note(f"cut off for {self._short_s:.0f} and {self._long_s:.0f} s; {restarts} restarts by the watchdog")

    def findings(self, scene: Scene) -> list[str]:
        return self._moved


@contextlib.contextmanager
def _cut_off(port: str) -> Iterator[None]:
    rule = ["INPUT", "-p", "tcp", "--dport", port, "-j", "DROP"]
    subprocess.run(["iptables", "-A", *rule], check=True)
    try:
        yield
    finally:
        subprocess.run(["iptables", "-D", *rule], check=True)


def _check(returned: int) -> None:
    if returned != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
