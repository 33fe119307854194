"""Messages per second when they come in bulk: one array, and one JSON object per line, against single requests."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp

from benchmarks.gateway import single_requests
from benchmarks.load import start_load
from benchmarks.machine import CpuMeter
from benchmarks.report import Report, median
from benchmarks.world import API_KEY, Running, World, add_senders, plan, role, session_id, world

_MESSAGES = 10_000
_SENDERS = 100
_ROUNDS = 3
_SINGLE_S = 2.0
_numbers = itertools.count()


@dataclass
class Way:
    name: str
    send: Callable[[Running], Awaitable[int]]
    per_second: list[float] = field(default_factory=list)
    per_core: list[float] = field(default_factory=list)


def _message() -> bytes:
    n = next(_numbers)
    body = {"to": str(972_520_000_000 + n % 2000), "message": "Hello, your order is on its way.",
            "sessionId": session_id(n % _SENDERS), "idempotencyKey": f"bulk-{n}"}  # fmt: skip
    return json.dumps(body).encode()


async def _array(gateway: Running) -> int:
    body = b"[" + b",".join(_message() for _ in range(_MESSAGES)) + b"]"
    async with _post(gateway, body, "application/json") as answer:
        told = await answer.json()
        return int(told["accepted"])


async def _lines(gateway: Running) -> int:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(0, _MESSAGES, 100):
            yield b"".join(_message() + b"\n" for _ in range(100))

    async with _post(gateway, pieces(), "application/x-ndjson") as answer:
        return sum([b'"queued":true' in line async for line in answer.content])


def _post(gateway: Running, body: object, kind: str) -> _Posting:
    return _Posting(gateway, body, kind)


class _Posting:
    """One request in a client session of its own."""

    def __init__(self, gateway: Running, body: object, kind: str) -> None:
        self._client = aiohttp.ClientSession(headers={"x-api-key": API_KEY, "content-type": kind})
        self._url = f"{gateway.url}/api/v1/send/bulk"
        self._body = body

    async def __aenter__(self) -> aiohttp.ClientResponse:
        return await self._client.post(self._url, data=self._body)

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()


async def _singles(gateway: Running) -> int:
    load = await start_load(gateway.url, single_requests(key=True), connections=64)
    await asyncio.sleep(_SINGLE_S)
    answers = load.tally.answers
    await load.stop()
    return answers


async def measure(report: Report) -> None:
    ways = [Way("array of 10,000", _array), Way("10,000 lines (NDJSON)", _lines), Way("single requests", _singles)]
    async with world() as here:
        with role("gateway", here) as gateway:
            for round_ in range(_ROUNDS):
                report.say(f"round {round_ + 1} of {_ROUNDS}")
                for way in ways:
                    await _one(way, gateway, here)
    single = ways[-1]
    ratios = {w.name: median([a / b for a, b in zip(w.per_core, single.per_core, strict=True)]) for w in ways}
    report.table(
        "Bulk: each message with its own idempotency key and result",
        ("", "messages per s", "per core and s", "÷ single"),
        [
            (w.name, f"{median(w.per_second):,.0f}", f"{median(w.per_core):,.0f}", f"{ratios[w.name]:.2f}×")
            for w in ways
        ],
        plot="per core and s",
    )
    report.figures = {
        w.name: {"perSecond": median(w.per_second), "perCore": median(w.per_core), "againstSingle": ratios[w.name]}
        for w in ways
    }


async def _one(way: Way, gateway: Running, here: World) -> None:
    await here.store.connection.call("FLUSHALL")
    await add_senders(here.store, _SENDERS, plan(min_delay_ms=2000, max_delay_ms=4000, per_minute=30))
    meter, began = CpuMeter(gateway=gateway.pid), time.perf_counter()
    accepted = await way.send(gateway)
    passed = time.perf_counter() - began
    _, used = meter.stop()
    if way.send is not _singles and accepted != _MESSAGES:
        raise RuntimeError(f"{way.name}: only {accepted} of {_MESSAGES} were accepted")
    way.per_second.append(accepted / passed)
    way.per_core.append(accepted / used["gateway"])
