"""What sessions cost that only wait: 100, 1,000 and 5,000 connected ones, pinging and polling, on one control plane."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp

from benchmarks.machine import CpuMeter, pss_mb
from benchmarks.report import Report, quantile
from benchmarks.wire import Wire, bare_request, place
from benchmarks.world import API_KEY, WEBHOOK_SECRET, Running, World, await_file, phone, process, session_id, world
from wa_orchestrator.clock import SystemClock

_COUNTS = (100, 1_000, 5_000)
_PER_PROXY = 4
_PING_S = 15.0
_POLL_MS = 55_000
_SETTLE_S = 17.0  # until every one has pinged and polled at its own time
_MEASURE_S = 20.0
_ROOT = Path(__file__).resolve().parent.parent


async def measure(report: Report) -> None:
    rows, figures = [], {}
    async with world() as here, _proxy() as proxy_port:
        with _server(here, proxy_port) as server, _bare(here) as bare:
            made = 0
            async with _Fleet(server, here) as fleet:
                for count in _COUNTS:
                    report.say(f"linking {count - made:,} more sessions")
                    began = time.perf_counter()
                    await fleet.grow(count, proxy_port)
                    linked = (count - made) / (time.perf_counter() - began)
                    made = count
                    await asyncio.sleep(_SETTLE_S)
                    found = await _costs(fleet, server, here, bare, count)
                    found["linkedPerSecond"] = linked
                    figures[str(count)] = found
                    rows.append((f"{count:,}", *(f"{found[name]:.1f}" for name in _SHOWN)))
    report.table(
        "idle sessions: a ping each 15 s, a long poll of 55 s, proxies checked, all loops running",
        _COLUMNS,
        rows,
        plot="control plane %",
    )
    report.figures = figures
    growth = figures["5000"]["serverPercent"] / 5_000 / (figures["1000"]["serverPercent"] / 1_000)
    report.at_most("control plane with 1,000 idle sessions", figures["1000"]["serverPercent"], 15, " % of a core")
    report.at_most("cost of a session at 5,000 against 1,000", growth, 1.2, " ×")


_SHOWN = ("serverPercent", "barePercent", "storePercent", "memoryMb", "pingP50Ms", "pingP99Ms", "linkedPerSecond")
_COLUMNS = ("sessions", "control plane %", "as many bare requests %", "store %", "memory MB", "ping p50 ms", "p99",
            "linked/s")  # fmt: skip


async def _costs(fleet: _Fleet, server: Running, here: World, bare: Running, count: int) -> dict[str, float]:
    fleet.ping_ms.clear()
    asked = fleet.requests
    meter = CpuMeter(server=server.pid, store=here.store_pid)
    await asyncio.sleep(_MEASURE_S)
    passed, used = meter.stop()
    per_second = (fleet.requests - asked) / passed
    return {
        "serverPercent": used["server"] / passed * 100,
        "storePercent": used["store"] / passed * 100,
        "barePercent": await _bare_share(bare, per_second),
        "memoryMb": pss_mb(server.pid),
        "requestsPerSecond": per_second,
        "pingP50Ms": quantile(fleet.ping_ms, 0.5),
        "pingP99Ms": quantile(fleet.ping_ms, 0.99),
    }


async def _bare_share(server: Running, per_second: float) -> float:
    """As many requests a second, answered without any work."""
    reader, writer = await asyncio.open_connection(*place(server.url))
    meter, began, sent = CpuMeter(server=server.pid), time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < 5:
        if sent >= passed * per_second:
            await asyncio.sleep(0.001)
            continue
        await bare_request(reader, writer)
        sent += 1
    passed, used = meter.stop()
    writer.close()
    return used["server"] / passed * 100


class _Fleet:
    """Workers as the control plane sees them: each with a connection for pings and one for its long poll."""

    def __init__(self, server: Running, here: World) -> None:
        self._server = server
        self._here = here
        self._tasks: list[asyncio.Task[None]] = []
        self._chance = random.Random(1)  # noqa: S311 - not a secret
        self.requests = 0
        self.ping_ms: list[float] = []

    async def __aenter__(self) -> _Fleet:
        self._http = aiohttp.ClientSession(headers={"x-api-key": API_KEY})
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._http.close()

    async def grow(self, count: int, proxy_port: int) -> None:
        have, at_once = len(self._tasks) // 2, asyncio.Semaphore(20)
        lines = "\n".join(_proxy_url(n, proxy_port) for n in range(have // _PER_PROXY, -(-count // _PER_PROXY)))
        async with self._http.post(f"{self._server.url}/api/v1/proxies/import", data=lines,
                                   headers={"content-type": "text/plain"}) as answer:  # fmt: skip
            assert answer.status < 300, await answer.text()

        async def one(number: int) -> None:
            async with at_once:
                await self._link(number)

        await asyncio.gather(*(one(number) for number in range(have, count)))

    async def _link(self, number: int) -> None:
        name = session_id(number)
        body = {"sessionId": name}
        async with self._http.post(f"{self._server.url}/api/sessions/provision", json=body) as answer:
            assert answer.status == 201, await answer.text()
        pings, polls = await Wire.open(name, self._server.url), await Wire.open(name, self._server.url)
        connected: dict[str, object] = {
            "phoneNumber": phone(number),
            "jid": f"{phone(number)}@s.whatsapp.net",
            "fingerprint": "bench",
        }
        await pings.post("/api/webhook", _event(name, 1, "CONNECTED", connected))
        self._tasks.append(asyncio.create_task(self._ping(name, pings)))
        self._tasks.append(asyncio.create_task(self._poll(name, polls)))

    async def _ping(self, name: str, wire: Wire) -> None:
        seq = 1
        await asyncio.sleep(self._chance.uniform(0, _PING_S))
        while True:
            seq += 1
            began = time.perf_counter()
            data: dict[str, object] = {
                "timestamp": SystemClock().now_ms(),
                "connection": "open",
                "rssBytes": 60_000_000,
                "unacked": 0,
            }
            await wire.post("/api/webhook", _event(name, seq, "PING", data))
            self.ping_ms.append((time.perf_counter() - began) * 1000)
            self.requests += 1
            await asyncio.sleep(_PING_S)

    async def _poll(self, name: str, wire: Wire) -> None:
        wait_ms = self._chance.randrange(3_000, _POLL_MS)
        while True:
            await wire.post(f"/api/worker/sessions/{name}/outbox/claim", {"max": 1, "waitMs": wait_ms})
            self.requests += 1
            wait_ms = _POLL_MS


def _event(name: str, seq: int, kind: str, data: dict[str, object]) -> dict[str, object]:
    return {"sessionId": name, "type": kind, "timestamp": SystemClock().now_ms(), "seq": seq, "data": data}


def _proxy_url(number: int, port: int) -> str:
    """Each proxy has an address of its own; all are the same program on the loopback network."""
    return f"socks5h://user:pass@127.1.{number // 250}.{number % 250 + 1}:{port}"


@contextlib.asynccontextmanager
async def _proxy() -> AsyncIterator[int]:
    sys.path.append(str(_ROOT / "tests"))
    from support.socks_server import SocksServer  # noqa: PLC0415 - the tests' own proxy

    async with SocksServer(user="user", password="pass", host="0.0.0.0") as proxy:  # noqa: S104 - loopback's whole network
        yield proxy.port


@contextlib.contextmanager
def _server(here: World, proxy_port: int) -> Iterator[Running]:
    """Every loop at its usual interval; proxies are checked by a connect to the proxy itself."""
    ready, log = here.folder / "idle.ready", here.folder / "idle.log"
    env = {"REDIS_URL": here.url, "READY_FILE": str(ready), "PYTHONPATH": str(_ROOT), "API_KEY": API_KEY,
           "WEBHOOK_SECRET": WEBHOOK_SECRET, "DATA_DIR": str(here.folder / "data"), "ORCH_PORT": "3001",
           "MAX_SESSIONS_PER_PROXY": str(_PER_PROXY), "PROXY_CHECK_TARGET": f"127.0.0.1:{proxy_port}"}  # fmt: skip
    with process([sys.executable, "-m", "benchmarks.idle_server"], log=log, env=env, cwd=_ROOT) as child:
        yield Running(url=await_file(ready, child, log)["url"], pid=child.pid)


@contextlib.contextmanager
def _bare(here: World) -> Iterator[Running]:
    ready, log = here.folder / "bare.ready", here.folder / "bare.log"
    env = {"STORE_URL": here.url, "READY_FILE": str(ready), "PYTHONPATH": str(_ROOT)}
    with process([sys.executable, "-m", "benchmarks.claim_server"], log=log, env=env, cwd=_ROOT) as child:
        yield Running(url=await_file(ready, child, log)["url"], pid=child.pid)
