"""Real workers on real Baileys, 1 → 10 → 50 of them: memory, CPU while idle, and how long a message takes."""

from __future__ import annotations

import asyncio
import time

from benchmarks.end_to_end import linked, one_by_one
from benchmarks.machine import CpuMeter, pss_mb
from benchmarks.report import Report, quantile
from benchmarks.simulated import Simulated, simulated

_COUNTS = (1, 10, 50)
_SETTLE_S, _IDLE_S = 3.0, 10.0
_RECIPIENTS = 5
_SENDERS = 10  # messages are sent by so many of them, one at a time


async def measure(report: Report) -> None:
    await asyncio.to_thread(_measure, report)


def _measure(report: Report) -> None:
    figures: dict[str, dict[str, float]] = {}
    with simulated(SIMULATOR_PROXIES=str(-(-_COUNTS[-1] // 4))) as world:
        recipients = [str(972_520_000_000 + n) for n in range(_RECIPIENTS)]
        for phone in recipients:
            world.simulator.call("POST", "/phones", {"phone": phone})
        sessions: list[str] = []
        for count in _COUNTS:
            began = time.perf_counter()
            before = len(sessions)
            sessions += [linked(world, number) for number in range(before, count)]
            each = (time.perf_counter() - began) / (count - before)
            report.say(f"{count} sessions linked")
            figures[str(count)] = {**_costs(world, sessions, recipients), "linkedS": each}
    one = figures["1"]
    rows = [
        (f"{count} workers", f"{f['memoryMb']:.1f}", f"{f['memoryMb'] / one['memoryMb']:.2f}×",
         f"{f['idlePercent']:.2f}", f"{f['controlPercent']:.1f}", f"{f['p50Ms']:.0f}", f"{f['p99Ms']:.0f}",
         f"{f['linkedS']:.2f}")
        for count, f in figures.items()
    ]  # fmt: skip
    report.table(
        "Connected workers (baseline: one)",
        ("", "MB each (PSS)", "÷ one", "idle % of a core each", "control plane %", "accepted → acked p50 ms", "p99 ms",
         "s to link one"), rows, plot="MB each (PSS)",
    )  # fmt: skip
    report.figures = figures
    report.at_most(
        "memory of a worker among 50 against one alone", figures["50"]["memoryMb"] / one["memoryMb"], 1.1, " ×"
    )


def _costs(world: Simulated, sessions: list[str], recipients: list[str]) -> dict[str, float]:
    time.sleep(_SETTLE_S)
    pids = {session: world.worker_pid(session) for session in sessions}
    meter = CpuMeter(control=world.pid, **pids)
    time.sleep(_IDLE_S)
    passed, used = meter.stop()
    senders = sessions[:_SENDERS]
    one_by_one(world, senders, recipients)  # keys are exchanged with every recipient before it counts
    took = one_by_one(world, senders, recipients)
    return {
        "memoryMb": sum(pss_mb(pid) for pid in pids.values()) / len(pids),
        "idlePercent": sum(used[session] for session in sessions) / len(sessions) / passed * 100,
        "controlPercent": used["control"] / passed * 100,
        "p50Ms": quantile(took, 0.5),
        "p99Ms": quantile(took, 0.99),
    }
