"""From the accepted request to WhatsApp's acknowledgement, through real workers and the simulator, without pacing."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any

from benchmarks.report import Report, quantile
from benchmarks.simulated import Simulated, simulated, wait_for

_SESSIONS = 5
_EACH = 40
_BURST = 200
_RECIPIENTS = 5


async def measure(report: Report) -> None:
    await asyncio.to_thread(_measure, report)


def _measure(report: Report) -> None:
    with simulated() as world:
        recipients = [str(972_520_000_000 + n) for n in range(_RECIPIENTS)]
        for phone in recipients:
            world.simulator.call("POST", "/phones", {"phone": phone})
        sessions = [linked(world, number) for number in range(_SESSIONS)]
        report.say(f"{_SESSIONS} sessions linked")
        one_by_one(world, sessions, recipients)  # keys are exchanged with every recipient before it counts
        rows = []
        for count in (1, _SESSIONS):
            took = one_by_one(world, sessions[:count], recipients)
            per_second = _burst(world, sessions[:count], recipients)
            rows.append((count, quantile(took, 0.5), quantile(took, 0.99), per_second))
            report.say(f"{count} sessions done")
    report.table(
        "Accepted → acknowledged by the (simulated) WhatsApp, unpaced",
        ("sessions", "one at a time p50 ms", "p99 ms", f"burst of {_BURST}: messages per s"),
        [(count, f"{p50:.0f}", f"{p99:.0f}", f"{rate:.0f}") for count, p50, p99, rate in rows],
        plot="one at a time p50 ms",
    )
    report.figures = {
        f"{count} sessions": {"p50Ms": p50, "p99Ms": p99, "burstPerSecond": rate} for count, p50, p99, rate in rows
    }


def linked(world: Simulated, number: int) -> str:
    phone = str(972_500_000_100 + number)
    world.simulator.call("POST", "/phones", {"phone": phone})
    session = world.provision()
    world.scan(phone, world.qr(session))
    world.await_status(session, "connected")
    world.unpaced(session)
    return session


def _send(world: Simulated, session: str, to: str) -> str:
    return str(
        world.api.call("POST", "/api/v1/send", {"to": to, "message": "Hello", "sessionId": session})["messageId"]
    )


def one_by_one(world: Simulated, sessions: list[str], recipients: list[str]) -> list[float]:
    """Milliseconds of each message, one under way per session at a time, on the clocks of gateway and worker."""
    took: list[float] = []
    for turn in range(_EACH):
        ids = [_send(world, session, recipients[turn % len(recipients)]) for session in sessions]
        took += [_until_sent(world, message_id) for message_id in ids]
    return took


def _until_sent(world: Simulated, message_id: str) -> float:
    def look() -> dict[str, Any] | None:
        found: dict[str, Any] = world.api.call("GET", f"/api/v1/messages/{message_id}")
        if found["status"] in {"failed", "expired", "cancelled"}:
            raise RuntimeError(f"{message_id}: {found}")
        return found if found.get("sentAt") else None

    found = wait_for(look, f"{message_id} to be sent")
    return (_ms(found["sentAt"]) - _ms(found["acceptedAt"])) or 0.0


def _ms(moment: str | float) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000 if isinstance(moment, str) else float(moment)


def _burst(world: Simulated, sessions: list[str], recipients: list[str]) -> float:
    began = time.perf_counter()
    ids = [_send(world, sessions[n % len(sessions)], recipients[n % len(recipients)]) for n in range(_BURST)]
    for message_id in ids:
        _until_sent(world, message_id)
    return _BURST / (time.perf_counter() - began)
