"""The dashboard with 1,000 sessions: how long the first view takes, and whether live updates keep up in a browser."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.machine import cpu_seconds
from benchmarks.report import Report, median, quantile
from benchmarks.world import (
    API_KEY,
    PROGRAM,
    WEBHOOK_SECRET,
    Running,
    World,
    await_file,
    phone,
    process,
    session_id,
    world,
)
from wa_orchestrator.store import keys

SESSIONS, PROXIES = 1000, 250
VIEWS = 25
EVENTS_PER_S, FLOOD_S = 200, 10
_STATES = ("connected", "connected", "connected", "connected", "reconnecting", "qr_ready", "logged_out", "failed")
_DAY_MS = 86_400_000


async def measure(report: Report) -> None:
    async with world() as here:
        await _fill(here)
        with _server(here) as server:
            # a bare address counts as a host too
            async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
                cookie = await _sign_in(http, server.url)
                await _views(report, http, server)
                await _live(report, http, here, server)
                await _browser(report, here, server, cookie)


async def _fill(here: World) -> None:
    """Sessions in all states, each with a lane, on proxies with four slots; not wanted running, so no worker starts."""
    call, now = here.store.connection.call, time.time_ns() // 1_000_000
    for number in range(PROXIES):
        proxy = f"px_{number:012x}"
        fields = {
            "host": f"10.0.{number // 250}.{number % 250}",
            "port": 1080,
            "user": "u",
            "password": "p",
            "addedAt": now,
        }
        await asyncio.gather(
            call("SADD", keys.PROXIES_ALL(), proxy), call("SET", keys.PROXY_STATUS(proxy), "active"),
            call("HSET", keys.PROXY(proxy), *_flat(fields)),
            call("SADD", keys.PROXY_SESSIONS(proxy), *(session_id(4 * number + slot) for slot in range(4))),
        )  # fmt: skip
    for start in range(0, SESSIONS, 250):
        steps: list[Any] = []
        for number in range(start, start + 250):
            name, its_phone = session_id(number), phone(number)
            record = {"id": name, "phone": its_phone, "status": _STATES[number % len(_STATES)], "wanted": "stopped",
                      "jid": its_phone, "created": now - number, "proxy": f"px_{number // 4:012x}",
                      "label": f"Shop {number}", "lastPing": now - number, "connectedAt": now - _DAY_MS}  # fmt: skip
            lane = {"dayKey": "bench", "dayCount": number % 90, "daily": 100, "dayEndsAt": now + _DAY_MS}
            steps += [
                call("HSET", keys.SESSION(name), *_flat(record)), call("ZADD", keys.SESSIONS_ALL(), number, name),
                call("HSET", keys.LANE(its_phone), *_flat(lane)), call("SADD", keys.PHONE_SESSION(its_phone), name),
                call("HSET", keys.PHONE(its_phone), "firstConnectedAt", now - number * 3_600_000),
            ]  # fmt: skip
        await asyncio.gather(*steps)


def _flat(fields: dict[str, Any]) -> list[Any]:
    return [part for pair in fields.items() for part in pair]


@contextlib.contextmanager
def _server(here: World) -> Iterator[Running]:
    ready, log = here.folder / "up.ready", here.folder / "up.log"
    env = {"REDIS_URL": here.url, "API_KEY": API_KEY, "WEBHOOK_SECRET": WEBHOOK_SECRET, "PROXY_BAD_AFTER": "100",
           "MONITOR_INTERVAL_MS": str(_DAY_MS), "WATCHDOG_INTERVAL_MS": str(_DAY_MS)}  # fmt: skip
    command = [str(PROGRAM), "up", "--data-dir", str(here.folder / "data"), "--port", "0", "--ready-file", str(ready)]
    with process(command, log=log, env=env) as child:
        yield Running(url=await_file(ready, child, log)["url"], pid=child.pid)


async def _sign_in(http: aiohttp.ClientSession, url: str) -> str:
    async with http.post(f"{url}/sign-in", data={"name": "", "password": API_KEY}, allow_redirects=False) as answer:
        assert answer.status == 303, answer.status
        return answer.cookies["wa_sign_in"].value


async def _timed(http: aiohttp.ClientSession, url: str) -> tuple[float, int]:
    began = time.perf_counter()
    async with http.get(url, allow_redirects=False) as answer:
        body = await answer.read()
        assert answer.status == 200, (url, answer.status)
    return (time.perf_counter() - began) * 1000, len(body)


# views -----------------------------------------------------------------------------------------------------------
async def _views(report: Report, http: aiohttp.ClientSession, server: Running) -> None:
    cold, _ = await _timed(http, f"{server.url}/")
    rows, figures = [], {}
    places = {
        "first view /": "/", "refresh of the list": "/parts/sessions", "search": "/parts/sessions?search=Shop+77",
        "page 20": "/parts/sessions?page=20&sort=-today", "anti-ban": "/anti-ban", "check-up": "/check-up",
        "baseline: JSON of all sessions": "/api/v1/dashboard/sessions",
    }  # fmt: skip
    for name, path in places.items():
        cpu = cpu_seconds(server.pid)
        found = [await _timed(http, server.url + path) for _ in range(VIEWS if "baseline" not in name else 5)]
        times = [ms for ms, _ in found]
        cpu_ms = (cpu_seconds(server.pid) - cpu) / len(found) * 1000
        figures[name] = {
            "medianMs": median(times),
            "p95Ms": quantile(times, 0.95),
            "cpuMs": cpu_ms,
            "bytes": found[0][1],
        }
        rows.append(
            (name, f"{median(times):.0f}", f"{quantile(times, 0.95):.0f}", f"{cpu_ms:.0f}", f"{found[0][1] / 1024:.0f}")
        )
    report.table(
        f"{SESSIONS} sessions, {PROXIES} proxies",
        ("page", "median ms", "p95 ms", "CPU ms", "KB"),
        rows,
        plot="median ms",
    )
    report.figures["views"] = {"coldMs": cold, **figures}
    report.at_most("very first view, templates not yet compiled", cold, 1000, " ms")
    report.at_most("first view of 1,000 sessions", figures["first view /"]["medianMs"], 1000, " ms")
    ratio = figures["baseline: JSON of all sessions"]["medianMs"] / figures["first view /"]["medianMs"]
    report.at_least("times as fast as reading each session by itself", ratio, 2)


# live ------------------------------------------------------------------------------------------------------------
async def _see_a_freeze(browser: Any) -> None:
    """An observer that sees nothing would report the best of all figures."""
    browser.script("setTimeout(() => { const end = performance.now() + 120; while (performance.now() < end); });")
    await asyncio.sleep(0.5)
    if float(browser.script("return window.longest")) < 100:
        raise RuntimeError("the browser does not tell long tasks: freezes of the page cannot be measured")
    browser.script("window.longest = 0; window.total = 0;")


async def _flood(here: World, seconds: float) -> None:
    """Journal entries as the scripts write them, evenly spread."""
    call, began = here.store.connection.call, time.perf_counter()
    for sent in range(int(EVENTS_PER_S * seconds)):
        number = await call("INCR", keys.EVENTS_NUMBER())
        data = json.dumps({"status": "connected", "was": "reconnecting", "reason": ""})
        await call("XADD", keys.EVENTS_JOURNAL(), f"{number}-0", "type", "session.status", "session",
                   session_id(number % SESSIONS), "at", time.time_ns() // 1_000_000, "data", data)  # fmt: skip
        await asyncio.sleep(max(0.0, began + (sent + 1) / EVENTS_PER_S - time.perf_counter()))


async def _live(report: Report, http: aiohttp.ClientSession, here: World, server: Running) -> None:
    """How late an event is at a listener while another viewer keeps asking for the list."""
    late: list[float] = []

    async def listen() -> None:
        async with http.get(f"{server.url}/api/v1/events/stream", timeout=aiohttp.ClientTimeout(total=None)) as stream:
            async for line in stream.content:
                if line.startswith(b"data: {"):
                    then = json.loads(line[6:])["timestamp"]
                    late.append(time.time() * 1000 - _ms(then))

    async def look() -> None:
        while True:
            await _timed(http, f"{server.url}/parts/sessions")
            await asyncio.sleep(1)

    tasks = [asyncio.create_task(listen()), asyncio.create_task(look())]
    await asyncio.sleep(1)
    await _flood(here, FLOOD_S)
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    report.figures["live"] = {"events": len(late), "medianMs": median(late), "p99Ms": quantile(late, 0.99)}
    report.say(f"{len(late)} of {EVENTS_PER_S * FLOOD_S} events heard, median {median(late):.0f} ms late")
    report.at_most("an event is late by (p99)", quantile(late, 0.99), 500, " ms")


def _ms(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp() * 1000


async def _browser(report: Report, here: World, server: Running, cookie: str) -> None:
    """The longest time for which a real browser does nothing else while 200 events a second come in."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
    from support.browser import chromium, running_browser  # noqa: PLC0415 - selenium only where it is needed

    if chromium() is None:
        report.say("no Chromium here: not measured in a browser")
        return
    with (
        tempfile.TemporaryDirectory(prefix="wa-bench-profile-") as profile,
        running_browser(Path(profile), server.url) as browser,
    ):
        browser.open("/sign-in")
        browser.driver.add_cookie({"name": "wa_sign_in", "value": cookie, "path": "/"})
        browser.open("/")
        browser.wait_shown("#session-list tbody tr")
        browser.script(
            "window.longest = 0; window.total = 0;"
            "new PerformanceObserver(list => { for (const e of list.getEntries()) {"
            " window.longest = Math.max(window.longest, e.duration); window.total += e.duration; } })"
            ".observe({entryTypes: ['longtask']});"
        )
        await _see_a_freeze(browser)
        await _flood(here, FLOOD_S)
        longest, total = float(browser.script("return window.longest")), float(browser.script("return window.total"))
    report.figures["browser"] = {"longestTaskMs": longest, "longTasksMs": total}
    report.say(f"in Chromium: longest task {longest:.0f} ms, all long tasks {total:.0f} ms of {FLOOD_S} s")
    report.at_most("longest freeze of the page under 200 events a second", longest, 250, " ms")
