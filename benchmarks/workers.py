"""Memory and start-up time of real workers, against plain node with unbundled Baileys, on the same simulator."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from pathlib import Path

from benchmarks.baselines.node_packages import HERE
from benchmarks.machine import pss_mb
from benchmarks.report import Report, median
from benchmarks.simulated import Simulated, simulated
from wa_orchestrator.worker_program import find_node

_WORKERS = 10
_STARTS = 5
_SETTLE_S = 5.0
_ROOT = Path(__file__).resolve().parent.parent


class _Plain:
    """One process of the baseline."""

    def __init__(self, folder: Path, world: Simulated) -> None:
        files = world.simulator_files()
        self._folder = folder
        self._env = {"PATH": os.environ["PATH"], "HOME": str(folder), "FOLDER": str(folder),
                     "WEBSOCKET_URL": files["websocketUrl"], "ROOT_PUBLIC_KEY": files["rootPublicKey"],
                     "NODE_EXTRA_CA_CERTS": files["caFile"]}  # fmt: skip
        self.child: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        began = time.perf_counter()
        self.child = subprocess.Popen(
            [find_node(), str(HERE / "plain_baileys.mjs")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=self._env, cwd=_ROOT,
        )  # fmt: skip
        return began

    def step(self, name: str) -> str:
        assert self.child
        assert self.child.stdout
        for line in self.child.stdout:
            told = json.loads(line)
            if name in told:
                return str(told[name])
        raise RuntimeError("the plain worker ended by itself")

    def end(self) -> None:
        if self.child:
            self.child.terminate()
            self.child.wait()
            if self.child.stdout:
                self.child.stdout.close()


class Times:
    def __init__(self) -> None:
        self.to_qr: list[float] = []
        self.to_connected: list[float] = []
        self.memory: list[float] = []


async def measure(report: Report) -> None:
    await asyncio.to_thread(_measure, report)


def _measure(report: Report) -> None:
    ours, plain = Times(), Times()
    with simulated() as world, contextlib.ExitStack() as stack:
        sessions, others = [], []
        for number in range(_WORKERS):
            sessions.append(_our_worker(world, number, ours))
            other = _Plain(world.data.parent / f"plain-{number}", world)
            stack.callback(other.end)
            _plain_worker(world, other, number, plain)
            others.append(other)
            report.say(f"{number + 1} of {_WORKERS} linked")
        time.sleep(_SETTLE_S)
        ours.memory = [pss_mb(world.worker_pid(session)) for session in sessions]
        plain.memory = [pss_mb(other.child.pid) for other in others if other.child]
        report.say("started again, already linked")
        for session, other in list(zip(sessions, others, strict=True))[:_STARTS]:
            _start_again(world, session, other, ours, plain)
    _tell(report, ours, plain)


def _our_worker(world: Simulated, number: int, times: Times) -> str:
    phone = str(972_500_000_100 + number)
    world.simulator.call("POST", "/phones", {"phone": phone})
    began = time.perf_counter()
    session = world.provision()
    qr = world.qr(session)
    times.to_qr.append(time.perf_counter() - began)
    world.scan(phone, qr)
    world.await_status(session, "connected")
    return session


def _plain_worker(world: Simulated, other: _Plain, number: int, times: Times) -> None:
    phone = str(972_500_000_200 + number)
    world.simulator.call("POST", "/phones", {"phone": phone})
    began = other.start()
    qr = other.step("qr")
    times.to_qr.append(time.perf_counter() - began)
    world.scan(phone, qr)
    other.step("open")


def _start_again(world: Simulated, session: str, other: _Plain, ours: Times, plain: Times) -> None:
    world.api.call("POST", f"/api/sessions/{session}/stop", {})
    world.await_status(session, "stopped")
    began = time.perf_counter()
    world.api.call("POST", f"/api/sessions/{session}/start", {})
    world.await_status(session, "connected")
    ours.to_connected.append(time.perf_counter() - began)
    other.end()
    began = other.start()
    other.step("open")
    plain.to_connected.append(time.perf_counter() - began)


def _tell(report: Report, ours: Times, plain: Times) -> None:
    measured = {name: {"memoryMb": median(t.memory), "toQrS": median(t.to_qr), "toConnectedS": median(t.to_connected)}
                for name, t in (("worker", ours), ("plain node + Baileys", plain))}  # fmt: skip
    first, second = measured.values()
    rows: list[tuple[str, ...]] = [
        (name, f"{m['memoryMb']:.1f}", f"{m['toQrS']:.2f}", f"{m['toConnectedS']:.2f}") for name, m in measured.items()
    ]
    rows.append(("ratio", *(f"{first[key] / second[key]:.2f}×" for key in first)))
    report.table(
        f"{_WORKERS} connected workers, medians; ours from the API call on, through the SOCKS proxy",
        ("", "MB (PSS)", "start → QR s", "start → connected s"), rows, plot="MB (PSS)",
    )  # fmt: skip
    report.figures = measured
    report.at_most("memory per worker", first["memoryMb"], 45, " MB")
    report.at_most("start to QR", first["toQrS"], 0.8, " s")
