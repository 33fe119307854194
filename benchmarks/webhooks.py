"""Webhook deliveries per core, against a bare HTTP client that posts the same bodies to the same receiver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from benchmarks.report import Report, median, number
from benchmarks.world import World, await_file, process, world
from wa_orchestrator.background import Services
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.events.assembly import webhook_parts
from wa_orchestrator.events.live import LiveEvents
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import keys

_EVENTS = 4000
_SESSIONS = 50
_ROUNDS = 3
_AT_ONCE = 8
_DATA = {"waMessageId": "3EB0D9B36063ACCC89251C", "from": "972501234567", "chat": "972501234567@s.whatsapp.net",
         "kind": "text", "text": "Hello, is my order on its way?", "timestamp": 1_700_000_000_000}  # fmt: skip
# as shared.lua notes an event
_NOTE = """for n = 1, tonumber(ARGV[1]) do
  local number = redis.call('INCR', KEYS[1])
  redis.call('XADD', KEYS[2], string.format('%d-0', number), 'type', 'MESSAGE_RECEIVED',
    'session', 'worker_' .. (number % tonumber(ARGV[2])), 'at', ARGV[3], 'data', ARGV[4])
end"""


@dataclass(frozen=True)
class Pace:
    """Of this process alone: the receiver is another one."""

    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        return _EVENTS / self.seconds

    @property
    def per_core(self) -> float:
        return _EVENTS / self.cpu_seconds


async def measure(report: Report) -> None:
    ours: list[Pace] = []
    bare: list[Pace] = []
    async with world() as here:
        with _receiver(here) as url:
            for turn in range(_ROUNDS):
                await _note_events(here)
                bare.append(await _bare_client(here, url))
                ours.append(await _deliveries(here, url))
                report.say(f"round {turn + 1}: {ours[-1].per_second:,.0f}/s, bare client {bare[-1].per_second:,.0f}/s")
    rows = [
        (name, f"{median([p.per_second for p in found]):,.0f}", f"{median([p.per_core for p in found]):,.0f}")
        for name, found in (("baseline: a bare client, same bodies", bare), ("webhook deliveries", ours))
    ]
    report.table(f"{_EVENTS:,} events of {_SESSIONS} sessions to one receiver, {_AT_ONCE} at a time",
                 ("", "per second", "per core second of the sender"), rows)  # fmt: skip
    share = median([mine.per_core / other.per_core for mine, other in zip(ours, bare, strict=True)])
    report.say(f"{number(share)} of the bare client's pace: reading, signing, settling and keeping order are the rest")
    report.figures = {
        "perSecond": median([p.per_second for p in ours]), "perCore": median([p.per_core for p in ours]),
        "barePerSecond": median([p.per_second for p in bare]), "barePerCore": median([p.per_core for p in bare]),
        "share": share,
    }  # fmt: skip
    report.at_least("deliveries per core against a bare client", share, 0.5)
    report.at_least("deliveries per second", report.figures["perSecond"], 1000, "/s")


@contextlib.contextmanager
def _receiver(here: World) -> Iterator[str]:
    ready, log = here.folder / "receiver.ready", here.folder / "receiver.log"
    program = Path(__file__).parent / "baselines" / "receiver.py"
    with process([sys.executable, str(program)], log=log, env={"READY_FILE": str(ready)}) as child:
        yield str(await_file(ready, child, log)["url"])


async def _note_events(here: World) -> None:
    call = here.store.connection.call
    for _ in range(0, _EVENTS, 500):
        await call("EVAL", _NOTE, 2, keys.EVENTS_NUMBER(), keys.EVENTS_JOURNAL(), 500, _SESSIONS,
                   SystemClock().now_ms(), json.dumps(_DATA))  # fmt: skip


async def _bare_client(here: World, url: str) -> Pace:
    """As many posts in as many tasks, nothing read, signed or remembered."""
    bodies = [entry.wire for entry in await here.store.journal.after(0, limit=_EVENTS)]
    left = iter(bodies)
    async with aiohttp.ClientSession() as client:

        async def post_all() -> None:
            for body in left:
                async with client.post(url, data=body) as answer:
                    await answer.read()

        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.gather(*(post_all() for _ in range(_AT_ONCE)))
        return Pace(time.perf_counter() - began, time.process_time() - cpu)


async def _deliveries(here: World, url: str) -> Pace:
    """The real thing from the journal's first new event to the last one settled in the store."""
    await here.store.connection.call("SET", keys.LEADER(), "benchmark")
    last = await here.store.journal.last_number()
    settings = load_settings({"WEBHOOK_ALLOW_PRIVATE": "true", "WEBHOOK_CONCURRENCY": str(_AT_ONCE)})
    live = LiveEvents(here.store)
    parts = webhook_parts(store=here.store, live=live, settings=settings, clock=SystemClock(), owner="benchmark")
    webhook = Webhook(webhook_id="wh_benchmark", url=url, secret="s" * 32)
    await here.store.webhooks.create(webhook, after=last - _EVENTS)
    services = Services()
    services.start("live_events", live)
    began, cpu = time.perf_counter(), time.process_time()
    services.start("webhooks", parts.delivery)
    while (await here.store.webhooks.get(webhook.webhook_id)).cursor < last:
        await asyncio.sleep(0.02)
    pace = Pace(time.perf_counter() - began, time.process_time() - cpu)
    await services.stop()
    await parts.sender.close()
    await here.store.webhooks.delete(webhook.webhook_id)
    return pace
