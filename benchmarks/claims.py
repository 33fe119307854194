"""A thousand workers that wait for work: what their waiting costs, and how soon one hears of a message."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.machine import CpuMeter
from benchmarks.report import Report, quantile
from benchmarks.wire import Wire, bare_request, place
from benchmarks.world import Running, World, add_senders, await_file, plan, process, session_id, world
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.store import keys
from wa_orchestrator.store.messages import NewMessage

_WORKERS = 1_000
_WAIT_MS = 55_000  # as the worker asks (CLAIM_WAIT_MS)
_IDLE_S = 12.0
_WAKES = 400
_ROOT = Path(__file__).resolve().parent.parent


class _Worker:
    """One worker's connection: asks, waits, asks again."""

    def __init__(self, number: int, wire: Wire) -> None:
        self.session_id = session_id(number)
        self._wire = wire
        self._answered: asyncio.Future[float] | None = None
        self.empty_answers = 0
        self.last = ""

    async def run(self, first_wait_ms: int) -> None:
        wait_ms = first_wait_ms
        path = f"/api/worker/sessions/{self.session_id}/outbox/claim"
        while True:
            answer = await self._wire.post(path, {"max": 1, "waitMs": wait_ms})
            if answer["messages"]:
                self.last = answer["messages"][0]["messageId"]
            else:
                self.empty_answers += 1
            if self._answered and not self._answered.done():
                self._answered.set_result(time.perf_counter())
            wait_ms = _WAIT_MS

    def await_answer(self) -> float:
        self._answered = asyncio.get_running_loop().create_future()
        return time.perf_counter()

    async def answered(self) -> float:
        assert self._answered
        return await asyncio.wait_for(self._answered, 5)

    def close(self) -> None:
        self._wire.close()


@contextlib.contextmanager
def _server(here: World) -> Iterator[Running]:
    ready, log = here.folder / "claims.ready", here.folder / "claims.log"
    env = {"STORE_URL": here.url, "READY_FILE": str(ready), "PYTHONPATH": str(_ROOT)}
    with process([sys.executable, "-m", "benchmarks.claim_server"], log=log, env=env, cwd=_ROOT) as child:
        yield Running(url=await_file(ready, child, log)["url"], pid=child.pid)


async def measure(report: Report) -> None:
    async with world() as here:
        await add_senders(here.store, _WORKERS, plan())
        with _server(here) as server:
            before = await _share(server, here, 3.0)
            bare = await _bare_share(server, here, 6.0)
            workers, tasks = await _connect(server)
            report.say(f"{_WORKERS:,} workers wait")
            await asyncio.sleep(3)
            asked = sum(w.empty_answers for w in workers)
            idle = await _share(server, here, _IDLE_S)
            asked = sum(w.empty_answers for w in workers) - asked
            report.say(f"waking {_WAKES} of them, one after the other")
            hints, wakes, trips = await _wakes(here, server, workers)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for worker in workers:
                worker.close()
    report.table(
        f"{_WORKERS:,} long polls of {_WAIT_MS // 1000} s (asked again {asked / _IDLE_S:.0f} times a second)",
        ("", "server % of a core", "store %"),
        [
            ("nobody waits", f"{before[0]:.2f}", f"{before[1]:.2f}"),
            ("baseline: as many bare requests", f"{bare[0]:.2f}", f"{bare[1]:.2f}"),
            (f"{_WORKERS:,} wait", f"{idle[0]:.2f}", f"{idle[1]:.2f}"),
        ],
        plot="server % of a core",
    )
    report.table(
        "One of them is woken",
        ("", "p50 ms", "p90 ms", "p99 ms"),
        [(name, *(f"{quantile(values, q):.2f}" for q in (0.5, 0.9, 0.99)))
         for name, values in (
                ("baseline: a bare request", trips),
                ("woken: from the hint in the store to the answer at the worker", hints),
                ("the same with a message: moved, claimed, both on disk", wakes),
            )], plot="p99 ms",
    )  # fmt: skip
    report.figures = {
        "idle": {"serverPercent": idle[0], "storePercent": idle[1], "polls": asked / _IDLE_S},
        "nobody": {"serverPercent": before[0], "storePercent": before[1]},
        "asManyBareRequests": {"serverPercent": bare[0], "storePercent": bare[1]},
        "wokenMs": {"p50": quantile(hints, 0.5), "p99": quantile(hints, 0.99)},
        "withMessageMs": {"p50": quantile(wakes, 0.5), "p99": quantile(wakes, 0.99)},
        "bareRequestMs": {"p50": quantile(trips, 0.5), "p99": quantile(trips, 0.99)},
    }
    report.at_most("1,000 waiting", idle[0], 2, " % of a core")
    report.at_most("woken, p99", quantile(hints, 0.99), 2, " ms")


async def _share(server: Running, here: World, seconds: float) -> tuple[float, float]:
    meter = CpuMeter(server=server.pid, store=here.store_pid)
    await asyncio.sleep(seconds)
    passed, used = meter.stop()
    return used["server"] / passed * 100, used["store"] / passed * 100


async def _bare_share(server: Running, here: World, seconds: float) -> tuple[float, float]:
    """The same number of requests as a thousand waiting workers make, answered without any work."""
    reader, writer = await asyncio.open_connection(*place(server.url))
    measured = asyncio.create_task(_share(server, here, seconds))
    while not measured.done():
        await bare_request(reader, writer)
        await asyncio.sleep(_WAIT_MS / 1000 / _WORKERS)
    writer.close()
    return await measured


async def _connect(server: Running) -> tuple[list[_Worker], list[asyncio.Task[None]]]:
    chance = random.Random(1)  # noqa: S311 - not a secret
    workers: list[_Worker] = []
    tasks: list[asyncio.Task[None]] = []
    for number in range(_WORKERS):
        workers.append(_Worker(number, await Wire.open(session_id(number), server.url)))
        # the first wait is cut short at random, so that they ask again spread over the time
        tasks.append(asyncio.create_task(workers[-1].run(chance.randrange(3_000, _WAIT_MS))))
    return workers, tasks


async def _wakes(here: World, server: Running, workers: list[_Worker]) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds, in turns: from a hint to an empty answer, from a move to the message, of a bare request."""
    reader, writer = await asyncio.open_connection(*place(server.url))
    chance = random.Random(2)  # noqa: S311 - not a secret
    hints: list[float] = []
    wakes: list[float] = []
    trips: list[float] = []
    for turn in range(_WAKES):
        number = chance.randrange(_WORKERS)
        worker = workers[number]
        began = worker.await_answer()
        await here.store.connection.call("PUBLISH", keys.WAKE(), worker.session_id)
        hints.append((await worker.answered() - began) * 1000)
        await here.store.messages.enqueue(_message(turn, number))
        await asyncio.sleep(0.005)
        began = worker.await_answer()
        await here.store.lanes.release_due(lanes=10)
        wakes.append((await worker.answered() - began) * 1000)
        await here.store.outbox.ack(worker.last, session_id=worker.session_id, sent_at=SystemClock().now_ms())
        began = time.perf_counter()
        await bare_request(reader, writer)
        trips.append((time.perf_counter() - began) * 1000)
    writer.close()
    return hints, wakes, trips


def _message(turn: int, number: int) -> NewMessage:
    recipient = str(972_520_000_000 + turn)
    return NewMessage(
        message_id=f"msg_{turn:018x}", wa_message_id=f"3EB0{turn:018X}", to=f"{recipient}@s.whatsapp.net",
        recipient=recipient, content='{"kind":"text","text":"Hello"}', session_id=session_id(number), by="bench",
    )  # fmt: skip
