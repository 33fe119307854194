"""`wa-orchestrator webhooks` and `events`, as an operator uses them."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.control_plane import API_KEY, ControlPlane, control_plane
from support.receiver import Receiver
from support.servers import StoreServer
from support.system import PROGRAM


@pytest.fixture
async def plane(valkey: StoreServer, tmp_path: Path) -> AsyncIterator[ControlPlane]:
    async with control_plane(tmp_path / "data", REDIS_URL=valkey.url, WEBHOOK_ALLOW_PRIVATE="true") as found:
        await found.store.connection.call("FLUSHALL")
        yield found


async def run(plane: ControlPlane, *words: str, status: int = 0) -> str:
    command = [str(PROGRAM), "--url", plane.url, "--api-key", API_KEY, *words]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


async def test_a_webhook_by_command(plane: ControlPlane, receiver: Receiver) -> None:
    assert "No webhooks yet" in await run(plane, "webhooks", "list")
    made = json.loads(
        await run(plane, "--json", "webhooks", "create", receiver.url, "--types", "proxy.*", "--label", "shop")
    )
    assert made["secret"].startswith("whsec_")
    assert "taken" in await run(plane, "webhooks", "test", made["id"])
    receiver.decide = lambda _event: 500
    assert "not taken: answered 500" in await run(plane, "webhooks", "test", made["id"], status=1)
    assert "shop" in await run(plane, "webhooks", "list")
    assert "paused" in await run(plane, "webhooks", "pause", made["id"])
    assert "disabled" in await run(plane, "webhooks", "list")
    assert "resumed" in await run(plane, "webhooks", "resume", made["id"])
    assert "No dead letters" in await run(plane, "webhooks", "dead", made["id"])
    assert "0 on their way" in await run(plane, "webhooks", "redrive", made["id"], "--all")
    await run(plane, "webhooks", "redrive", made["id"], status=2)
    assert "is deleted" in await run(plane, "webhooks", "delete", made["id"])


async def test_events_by_command(plane: ControlPlane) -> None:
    await plane.add_proxies(3)
    last = await plane.store.journal.last_number()
    lines = (await run(plane, "events", "--types", "proxy.added")).splitlines()
    assert len(lines) == 3
    assert "proxy.added" in lines[0]
    shown = [json.loads(line) for line in (await run(plane, "--json", "events", "--after", str(last - 2))).splitlines()]
    # the server goes on living: more may have happened since
    assert [event["number"] for event in shown][:2] == [last - 1, last]
    await run(plane, "events", "--types", "nothing", status=1)
