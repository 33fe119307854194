"""The world a benchmark runs in: a store of its own, linked senders written into it, our roles as processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wa_orchestrator.clock import SystemClock
from wa_orchestrator.dispatcher.pacing import plan_lane
from wa_orchestrator.model.lane import LanePlan
from wa_orchestrator.model.limits import Effective, Limits
from wa_orchestrator.store import Store, StoreRules, keys
from wa_orchestrator.store.embedded import EmbeddedStore

API_KEY = "benchmark-key"
WEBHOOK_SECRET = "benchmark-secret"
PROGRAM = Path(sys.executable).parent / "wa-orchestrator"
_START_S = 30.0


@dataclass(frozen=True)
class World:
    """An embedded store with its durable default (fsync at every write), and a folder."""

    folder: Path
    url: str
    store_pid: int
    store: Store


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(prefix="wa-bench-") as name:
        folder = Path(name)
        embedded = EmbeddedStore(folder / "store", "always")
        url = await embedded.start()
        store = Store(url, SystemClock(), StoreRules())
        try:
            pid = int((folder / "store" / "valkey.pid").read_text(encoding="ascii").split()[0])
            yield World(folder=folder, url=url, store_pid=pid, store=store)
        finally:
            await store.close()
            await embedded.stop()


# senders ---------------------------------------------------------------------------------------------------------
def session_id(number: int) -> str:
    return f"worker_{number + 1}"


def phone(number: int) -> str:
    return str(972_500_000_000 + number)


def plan(*, min_delay_ms: int = 0, max_delay_ms: int = 0, per_minute: int | None = None) -> LanePlan:
    """Limits wide enough that only the delays hold anything back, planned as the dispatcher plans."""
    limits = Limits(daily=1_000_000, per_minute=per_minute, min_delay_ms=min_delay_ms, max_delay_ms=max_delay_ms,
                    hours=None, burst=None, timezone="UTC")  # fmt: skip
    effective = Effective(limits=limits, sources={}, preset="standard", changes_at=None)
    return plan_lane(effective, first_connected_at=None, now_ms=SystemClock().now_ms())


async def add_senders(store: Store, count: int, its_plan: LanePlan) -> None:
    """Connected sessions with a planned lane each, as the registry and the planner leave them."""
    call = store.connection.call
    for start in range(0, count, 500):
        steps: list[Any] = []
        for number in range(start, min(start + 500, count)):
            name, its_phone = session_id(number), phone(number)
            fields = {"id": name, "phone": its_phone, "status": "connected", "wanted": "running", "jid": its_phone,
                      "createdAt": 1, "statusAt": 1}  # fmt: skip
            steps += [
                call("HSET", keys.SESSION(name), *(part for pair in fields.items() for part in pair)),
                call("SADD", keys.PHONE_SESSION(its_phone), name),
                store.lanes.write_plan(its_phone, its_plan, version=""),
            ]
        await asyncio.gather(*steps)


# processes -------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def process(
    command: Sequence[str], *, log: Path, env: dict[str, str], cwd: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ours; told to end, then made to."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd or log.parent,
            env={"PATH": os.environ["PATH"], "HOME": str(log.parent), "LANG": "C.UTF-8", **env},
        )  # fmt: skip
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(timeout=20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def await_file(path: Path, child: subprocess.Popen[bytes], log: Path) -> dict[str, Any]:
    """The JSON that a program writes when it is ready."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise RuntimeError(f"{child.args!r} ended by itself:\n{log.read_text(errors='replace')[-2000:]}")
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return found
        time.sleep(0.02)
    raise RuntimeError(f"{child.args!r} was not ready after {_START_S} s")


@dataclass(frozen=True)
class Running:
    url: str
    pid: int


@contextlib.contextmanager
def role(name: str, here: World, **settings: str) -> Iterator[Running]:
    """`wa-orchestrator gateway` or `dispatcher`, as operators start them."""
    ready, log = here.folder / f"{name}.ready", here.folder / f"{name}.log"
    ready.unlink(missing_ok=True)
    where = ["--port", "0"] if name == "gateway" else []
    env = {"REDIS_URL": here.url, "API_KEY": API_KEY, "TIMEZONE": "UTC", **settings}
    with process([str(PROGRAM), name, "--ready-file", str(ready), *where], log=log, env=env) as child:
        found = await_file(ready, child, log)
        yield Running(url=found.get("url") or "", pid=child.pid)
