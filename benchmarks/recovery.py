"""How long the system needs to heal itself: a killed worker, a dead proxy, a killed control plane."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.report import Report, median
from benchmarks.simulated import Simulated, started, wait_for

_SESSIONS = 4  # all on one proxy: they fall together
_ROUNDS = 5


async def measure(report: Report) -> None:
    await asyncio.to_thread(_measure, report)


def _measure(report: Report) -> None:
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="wa-bench-") as name:
        folder = Path(name)
        with started(folder) as world:
            sessions = [_linked(world, number, times) for number in range(_SESSIONS)]
            report.say(f"{_SESSIONS} sessions linked")
            for number in range(_ROUNDS):
                session = sessions[number % _SESSIONS]
                _note(times, "stop and start by hand (baseline)", _by_hand(world, session))
                _note(times, "worker killed -9 → connected", _killed_worker(world, session))
            report.say("workers killed")
            for _ in range(3):
                first, last = _dead_proxy(world, sessions)
                _note(times, "proxy dies → first session connected elsewhere", first)
                _note(times, f"proxy dies → all {_SESSIONS} connected elsewhere", last)
            report.say("proxies killed")
            workers = [world.worker_pid(session) for session in sessions]
            os.kill(world.pid, signal.SIGKILL)
        began = time.perf_counter()
        with started(folder) as world:
            _note(times, "control plane killed -9 → serves again", time.perf_counter() - began)
            if [world.worker_pid(session) for session in sessions] != workers:
                raise RuntimeError("a worker was restarted though only the control plane was killed")
    _tell(report, times)


def _linked(world: Simulated, number: int, times: dict[str, list[float]]) -> str:
    phone = str(972_500_000_100 + number)
    world.simulator.call("POST", "/phones", {"phone": phone})
    proxy = "" if number == 0 else str(_session(world, "s_0")["proxy"]["id"])
    began = time.perf_counter()
    body = {"sessionId": f"s_{number}", **({"proxy": proxy} if proxy else {})}
    session = str(world.api.call("POST", "/api/sessions/provision", body)["sessionId"])
    _note(times, "provision → answered", time.perf_counter() - began)
    qr = world.qr(session)
    _note(times, "provision → code to scan", time.perf_counter() - began)
    world.scan(phone, qr)
    world.await_status(session, "connected")
    return session


def _by_hand(world: Simulated, session: str) -> float:
    world.api.call("POST", f"/api/sessions/{session}/stop", {})
    world.await_status(session, "stopped")
    began = time.perf_counter()
    world.api.call("POST", f"/api/sessions/{session}/start", {})
    world.await_status(session, "connected")
    return time.perf_counter() - began


def _killed_worker(world: Simulated, session: str) -> float:
    pid = world.worker_pid(session)
    began = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: _other_pid(world, session, pid), f"a new worker of {session}")
    world.await_status(session, "connected")
    return time.perf_counter() - began


def _other_pid(world: Simulated, session: str, pid: int) -> bool:
    try:
        return world.worker_pid(session) != pid
    except (OSError, IndexError):
        return False


def _dead_proxy(world: Simulated, sessions: list[str]) -> tuple[float, float]:
    proxy = _session(world, sessions[0])["proxy"]
    waiting = [session for session in sessions if _session(world, session)["proxy"]["id"] == proxy["id"]]
    began = time.perf_counter()
    world.simulator.call("POST", "/faults", {"proxyDown": proxy["port"]})
    took: list[float] = []
    while waiting:
        for session in list(waiting):
            found = _session(world, session)
            if found["status"] == "connected" and found["proxy"]["id"] != proxy["id"]:
                took.append(time.perf_counter() - began)
                waiting.remove(session)
        if time.perf_counter() - began > 60:
            raise RuntimeError(f"{waiting} did not come back")
        time.sleep(0.02)
    world.simulator.call("POST", "/faults", {"proxyUp": proxy["port"]})
    return took[0], took[-1]


def _session(world: Simulated, session: str) -> Any:
    return world.api.call("GET", f"/api/sessions/{session}")


def _note(times: dict[str, list[float]], what: str, seconds: float) -> None:
    times.setdefault(what, []).append(seconds)


def _tell(report: Report, times: dict[str, list[float]]) -> None:
    baseline = median(times["stop and start by hand (baseline)"])
    rows = [
        (what, f"{median(found):.2f}", f"{max(found):.2f}", f"{median(found) / baseline:.1f}×")
        for what, found in times.items()
    ]
    report.table(
        "healing, seconds",
        ("", "median", "longest", "against a start by hand"),
        rows,
        plot="median",
    )
    report.figures = {what: {"medianS": median(found), "longestS": max(found)} for what, found in times.items()}
    report.at_most("worker killed → connected", max(times["worker killed -9 → connected"]), 10, " s")
    report.at_most(
        "dead proxy → all elsewhere", max(times[f"proxy dies → all {_SESSIONS} connected elsewhere"]), 30, " s"
    )
