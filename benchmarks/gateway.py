"""Accepted sends per second and core: one gateway with all its checks, against three servers that check nothing."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from benchmarks.baselines.node_packages import HERE, node_packages
from benchmarks.load import request_head, start_load, with_body
from benchmarks.machine import CpuMeter, cores, pin
from benchmarks.report import Report, median, quantile
from benchmarks.world import API_KEY, Running, World, add_senders, await_file, plan, process, role, session_id, world
from wa_orchestrator.store import Store, scripts
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.messages import NewMessage
from wa_orchestrator.worker_program import find_node

_CONNECTIONS = 128
_ROUNDS = 3
_WARM_UP_S = 0.7
_MEASURED_S = 2.5
_SENDERS = 100
_RECIPIENTS = 2_000  # known to the gateway after the warm-up, as a customer list is
_TEXT = "Hello, your order has left our warehouse and will be with you tomorrow."

Requests = Callable[[], bytes]


@dataclass
class Contender:
    name: str
    url: str
    pid: int
    requests: Requests
    per_core: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)
    store_us: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)


def single_requests(*, key: bool, fresh: bool = False) -> Requests:
    """Request after request: the same bytes for every contender, but for the key and the numbers."""
    head = request_head("/api/v1/send", f"x-api-key: {API_KEY}")
    counter = itertools.count()

    def made() -> bytes:
        n = next(counter)
        to = 972_520_000_000 + (n % 7_000_000 if fresh else n % _RECIPIENTS)
        body = b'{"to":"%d","message":"%b","sessionId":"%b"}' % (to, _TEXT.encode(), session_id(n % _SENDERS).encode())
        return with_body(head + b"idempotency-key: order-%d\r\n" % n if key else head, body)

    return made


async def measure(report: Report) -> None:
    packages = await asyncio.to_thread(node_packages)
    async with world() as here:
        script = here.folder / "enqueue.lua"
        script.write_text(scripts.load("enqueue_message").text, encoding="utf-8")
        (here.folder / "arguments.json").write_bytes(await _arguments(here.store))
        with contextlib.ExitStack() as stack:
            ours = stack.enter_context(role("gateway", here))
            plain = single_requests(key=False)
            contenders = [
                Contender("gateway", ours.url, ours.pid, plain),
                Contender("gateway, idempotency key", ours.url, ours.pid, single_requests(key=True)),
                Contender("gateway, new recipients only", ours.url, ours.pid, single_requests(key=False, fresh=True)),
            ]
            node = find_node()
            for name, command in (
                ("bare ASGI", [sys.executable, str(HERE / "bare_asgi.py")]),
                ("Express + ioredis", [node, str(HERE / "express.mjs")]),
                ("fastify + ioredis", [node, str(HERE / "fastify.mjs")]),
            ):
                running = stack.enter_context(_baseline(name, command, here, script, packages))
                contenders.append(Contender(name, running.url, running.pid, plain))
            _share_cores(contenders, here)
            for round_ in range(_ROUNDS):
                report.say(f"round {round_ + 1} of {_ROUNDS}")
                for contender in contenders:
                    await _one(contender, here)
    _tell(report, contenders)


class _Recording:
    """In place of the connection: keeps what would have been sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def call(self, *command: Any) -> str:
        self.sent += command
        return "{}"


async def _arguments(store: Store) -> bytes:
    """What the gateway gives its script for one message, for the baselines to fill in."""
    recording, real = _Recording(), store.messages._connection
    store.messages._connection = cast(Connection, recording)
    try:
        await store.messages.enqueue(
            NewMessage(message_id="", wa_message_id="", to="", recipient="", content="", session_id="", by="api")
        )
    finally:
        store.messages._connection = real
    packed: bytes = recording.sent[-1]
    return packed


@contextlib.contextmanager
def _baseline(name: str, command: list[str], here: World, script: Path, packages: Path) -> Iterator[Running]:
    file = here.folder / name.replace(" ", "-")
    ready, log = file.with_suffix(".ready"), file.with_suffix(".log")
    env = {
        "STORE_URL": here.url,
        "SCRIPT_FILE": str(script),
        "ARGUMENTS_FILE": str(script.with_name("arguments.json")),
        "READY_FILE": str(ready),
        "NODE_PACKAGES": str(packages),
        "NODE_ENV": "production",
    }
    with process(command, log=log, env=env) as child:
        yield Running(url=await_file(ready, child, log)["url"], pid=child.pid)


def _share_cores(contenders: list[Contender], here: World) -> None:
    """The server under test has a core for itself; store and load generator share another."""
    available = cores()
    if len(available) < 2:
        return
    for contender in contenders:
        pin(contender.pid, available[:1])
    pin(here.store_pid, available[1:])
    pin(os.getpid(), available[1:])


async def _one(contender: Contender, here: World) -> None:
    await here.store.connection.call("FLUSHALL")
    await add_senders(here.store, _SENDERS, plan(min_delay_ms=2000, max_delay_ms=4000, per_minute=30))
    load = await start_load(contender.url, contender.requests, connections=_CONNECTIONS)
    await asyncio.sleep(_WARM_UP_S)
    tally = load.restart_count()
    meter = CpuMeter(server=contender.pid, store=here.store_pid)
    await asyncio.sleep(_MEASURED_S)
    answers = tally.answers
    passed, used = meter.stop()
    await load.stop()
    if tally.refused:
        raise RuntimeError(f"{contender.name} refused {tally.refused}: {tally.first_refusal!r}")
    contender.per_core.append(answers / used["server"])
    contender.per_second.append(answers / passed)
    contender.store_us.append(used["store"] / answers * 1e6)
    contender.p99_ms.append(quantile(tally.latencies_s, 0.99) * 1000)


def _tell(report: Report, contenders: list[Contender]) -> None:
    base = {c.name: c for c in contenders}

    def ratio(ours: Contender, theirs: str) -> float:
        # round by round: what disturbed one round disturbed both
        return median([a / b for a, b in zip(ours.per_core, base[theirs].per_core, strict=True)])

    against = ("bare ASGI", "Express + ioredis", "fastify + ioredis")
    rows = [
        (c.name, f"{median(c.per_core):,.0f}", f"{1e6 / median(c.per_core):.0f}", f"{median(c.per_second):,.0f}",
         f"{median(c.store_us):.0f}", f"{median(c.p99_ms):.1f}", *(f"{ratio(c, other):.2f}×" for other in against))
        for c in contenders
    ]  # fmt: skip
    report.table(
        f"Accepted sends ({_CONNECTIONS} connections, fsync at every write)",
        ("", "per core and s", "CPU µs", "per s", "store µs", "p99 ms", "÷ bare", "÷ Express", "÷ fastify"), rows,
        plot="per core and s",
    )  # fmt: skip
    report.figures = {
        c.name: {"perCore": median(c.per_core), "perSecond": median(c.per_second), "storeUs": median(c.store_us),
                 "p99Ms": median(c.p99_ms), **{f"against {o}": ratio(c, o) for o in against}}
        for c in contenders
    }  # fmt: skip
    for c in contenders[:2]:
        report.at_least(f"{c.name} against Express", ratio(c, against[1]), 2.5, "×")
        report.at_least(f"{c.name} against fastify", ratio(c, against[2]), 0.8, "×")
