"""The dispatcher with 100, 1,000 and 10,000 paced senders: CPU and lateness; and its speed without pacing."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass

from benchmarks.machine import CpuMeter
from benchmarks.pretended_workers import PretendedWorkers
from benchmarks.report import Report, median, number, quantile
from benchmarks.world import World, add_senders, phone, plan, role, session_id, world
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.dispatcher.loop import Dispatcher
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import NewMessage

# five a minute each, as the lowest level of trust allows: the dearest case, because all senders are busy all the time
_SPREAD_MS = 12_000
_PACE = {"min_delay_ms": 10_000, "max_delay_ms": 14_000, "per_minute": 5}
_UNPACED_SENDERS = 1_000
_UNPACED_EACH = 32  # as many as may be under way
_UNPACED_ROUNDS = 2


@dataclass(frozen=True)
class Paced:
    senders: int
    moves_per_s: float
    dispatcher_share: float
    store_share: float
    p50_ms: float
    p99_ms: float


async def measure(report: Report) -> None:
    async with world() as here:
        idle = await _idle(here)
        report.say(f"idle: dispatcher {idle[0]:.2f} %, store {idle[1]:.2f} % of a core")
        found = []
        for senders in (100, 1_000, 10_000):
            report.say(f"{senders:,} paced senders")
            found.append(await _paced(here, senders))
        report.say("unpaced")
        moves = [await _unpaced(here) for _ in range(_UNPACED_ROUNDS)]
    report.table(
        "Paced senders, 5 messages a minute each; claimed and acknowledged by pretended workers",
        ("senders", "moves per s", "dispatcher % of a core", "store %", "late p50 ms", "late p99 ms"),
        [("none", 0, f"{idle[0]:.2f}", f"{idle[1]:.2f}", "-", "-")]
        + [(f"{p.senders:,}", f"{p.moves_per_s:,.0f}", f"{p.dispatcher_share:.2f}", f"{p.store_share:.1f}",
            f"{p.p50_ms:.0f}", f"{p.p99_ms:.0f}") for p in found], plot="dispatcher % of a core",
    )  # fmt: skip
    per_second, store_us = median([m[0] for m in moves]), median([m[1] for m in moves])
    report.table(
        f"Unpaced: {_UNPACED_SENDERS:,} senders with {_UNPACED_EACH} messages each, moved into their outboxes",
        ("", "moves per s", "per core of the store", "store µs a move"),
        [("queue → outbox", f"{per_second:,.0f}", f"{1e6 / store_us:,.0f}", number(store_us))],
        plot="per core of the store",
    )
    report.figures = {
        "idle": {"dispatcherPercent": idle[0], "storePercent": idle[1]},
        "paced": [vars(p) for p in found],
        "unpaced": {"movesPerSecond": per_second, "storeUsPerMove": store_us},
    }
    most = found[-1]
    report.at_most("10,000 senders: p99 lateness", most.p99_ms, 100, " ms")
    report.at_most("10,000 senders: dispatcher", most.dispatcher_share, 3, " % of a core")
    report.at_least("unpaced moves per second and core of the store", 1e6 / store_us, 30_000, "/s")


async def _idle(here: World) -> tuple[float, float]:
    with role("dispatcher", here) as dispatcher:
        await asyncio.sleep(1)
        meter = CpuMeter(dispatcher=dispatcher.pid, store=here.store_pid)
        await asyncio.sleep(5)
        passed, used = meter.stop()
    return used["dispatcher"] / passed * 100, used["store"] / passed * 100


async def _paced(here: World, senders: int) -> Paced:
    await here.store.connection.call("FLUSHALL")
    await add_senders(here.store, senders, plan(**_PACE))
    ids = await _queue(here, senders, each=2)
    async with PretendedWorkers(here.url):
        with role("dispatcher", here) as dispatcher:
            dues = await _spread_out(here, senders)
            await asyncio.sleep(1)
            meter = CpuMeter(dispatcher=dispatcher.pid, store=here.store_pid)
            await asyncio.sleep(_SPREAD_MS / 1000)
            passed, used = meter.stop()
            await asyncio.sleep(0.5)
    left_at = await asyncio.gather(
        *(here.store.connection.call("HGET", keys.MESSAGE(row[0]), "outboxAt") for row in ids)
    )
    late = [float(at) - due for at, due in zip(left_at, dues, strict=True) if at is not None]
    if len(late) < senders:
        raise RuntimeError(f"{senders - len(late)} of {senders} messages never left")
    return Paced(
        senders=senders, moves_per_s=senders / (_SPREAD_MS / 1000),
        dispatcher_share=used["dispatcher"] / passed * 100, store_share=used["store"] / passed * 100,
        p50_ms=quantile(late, 0.5), p99_ms=quantile(late, 0.99),
    )  # fmt: skip


async def _spread_out(here: World, senders: int) -> list[int]:
    """The senders' first due times, spread evenly over the time that is measured, in no order."""
    begin = SystemClock().now_ms() + 1500
    dues = [begin + n * _SPREAD_MS // senders for n in range(senders)]
    random.Random(1).shuffle(dues)  # noqa: S311 - not a secret
    call = here.store.connection.call
    for start in range(0, senders, 500):
        await asyncio.gather(
            *(
                step
                for n in range(start, min(start + 500, senders))
                for step in (
                    call("HSET", keys.LANE(phone(n)), "nextDue", dues[n]),
                    call("ZADD", keys.LANES_DUE(), dues[n], phone(n)),
                )
            )
        )
    return dues


async def _queue(here: World, senders: int, *, each: int) -> list[list[str]]:
    """Messages in every sender's queue, before a dispatcher runs; held back until they are given their due time."""
    far = SystemClock().now_ms() + 3_600_000
    call = here.store.connection.call
    rows: list[list[str]] = []
    for start in range(0, senders, 200):
        batch = range(start, min(start + 200, senders))
        await asyncio.gather(*(call("HSET", keys.LANE(phone(n)), "nextDue", far) for n in batch))
        made = [[_message(n, k) for k in range(each)] for n in batch]
        # in order: the first of a sender goes first
        for k in range(each):
            await asyncio.gather(*(here.store.messages.enqueue(row[k]) for row in made))
        rows += [[m.message_id for m in row] for row in made]
    return rows


def _message(sender: int, k: int) -> NewMessage:
    recipient = str(972_520_000_000 + sender * 100 + k)
    return NewMessage(
        message_id=f"msg_{sender:08x}{k:010x}", wa_message_id=f"3EB0{sender:08X}{k:010X}",
        to=f"{recipient}@s.whatsapp.net", recipient=recipient, content='{"kind":"text","text":"Hello"}',
        session_id=session_id(sender), by="bench",
    )  # fmt: skip


async def _unpaced(here: World) -> tuple[float, float]:
    """(moves per second, store µs a move) of one dispatcher that empties full queues."""
    await here.store.connection.call("FLUSHALL")
    await add_senders(here.store, _UNPACED_SENDERS, plan())
    await _queue(here, _UNPACED_SENDERS, each=_UNPACED_EACH)
    now, call = SystemClock().now_ms(), here.store.connection.call
    await asyncio.gather(*(call("HSET", keys.LANE(phone(n)), "nextDue", 0) for n in range(_UNPACED_SENDERS)))
    await asyncio.gather(*(call("ZADD", keys.LANES_DUE(), now, phone(n)) for n in range(_UNPACED_SENDERS)))
    settings = load_settings({"TIMEZONE": "UTC"})
    planner = Planner(store=here.store, settings=settings, clock=SystemClock())
    dispatcher = Dispatcher(store=here.store, planner=planner, settings=settings, clock=SystemClock())
    meter, began = CpuMeter(store=here.store_pid), time.perf_counter()
    moved = await dispatcher.run_once()
    passed = time.perf_counter() - began
    _, used = meter.stop()
    if moved != _UNPACED_SENDERS * _UNPACED_EACH:
        raise RuntimeError(f"only {moved} moved")
    return moved / passed, used["store"] / moved * 1e6
