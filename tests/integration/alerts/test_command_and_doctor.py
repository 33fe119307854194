"""What an operator types: `alerts test`, `alerts list`, `doctor`, with a running server and a Telegram that answers."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from support.alerts import CHAT, TOKEN, BotApi, bot_api
from support.control_plane import API_KEY, ControlPlane, control_plane
from support.servers import StoreServer
from support.system import PROGRAM
from support.waiting import wait_until
from wa_orchestrator.doctor import examine


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with bot_api() as running:
        yield running


async def typed(plane: ControlPlane, *words: str) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "--url", plane.url, "--api-key", API_KEY, *words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def test_the_commands_tell_what_is_and_whether_it_works(valkey: StoreServer, tmp_path: Path, api: BotApi) -> None:
    with redis.Redis(port=valkey.port) as client:
        client.flushall()
    async with control_plane(
        tmp_path / "data", REDIS_URL=valkey.url, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_CHAT_ID=CHAT,
        TELEGRAM_API_URL=api.url, ALERT_DIGEST_MS="300",
    ) as plane:  # fmt: skip
        assert await typed(plane, "alerts", "list") == (0, "There were no alerts.\n")
        assert await typed(plane, "alerts", "test") == (0, "Sent. Look into the chat.\n")
        assert len(api.texts) == 1
        api.answers = [(400, {"description": "Bad Request: chat not found"})]
        code, output = await typed(plane, "alerts", "test")
        assert code == 1
        assert "TELEGRAM_CHAT_ID" in output
        await plane.add_proxies(1)
        session_id = await plane.provision(phone="972500000001")
        await plane.event(session_id, "DISCONNECTED", {"reason": "replaced", "code": 440})
        await wait_until(lambda: len(api.texts) == 2, timeout_s=30)
        code, output = await typed(plane, "alerts", "list")
        assert f"{session_id} is used somewhere else" in output
        code, output = await typed(plane, "--json", "alerts", "list", "--limit", "5")
        assert json.loads(output)["standing"][0]["kind"] == "replaced"
        assert TOKEN not in output


async def examined(**environ: str) -> tuple[bool | None, str]:
    given = {"PATH": os.environ["PATH"], "ORCH_PORT": "0", **environ}
    found = next(f for f in await asyncio.to_thread(examine, given) if f.name == "alerts")
    assert TOKEN not in f"{found.text} {found.fix}"
    return found.ok, f"{found.text} {found.fix}"


async def test_the_doctor_asks_telegram(api: BotApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (await examined())[0] is None
    assert await examined(TELEGRAM_BOT_TOKEN=TOKEN) == (
        False,
        "Off: TELEGRAM_CHAT_ID is missing. Set TELEGRAM_CHAT_ID too.",
    )
    right = {"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_CHAT_ID": CHAT, "TELEGRAM_API_URL": api.url}
    assert (await examined(**right))[0] is True
    assert "TELEGRAM_BOT_TOKEN" in (await examined(**{**right, "TELEGRAM_BOT_TOKEN": "1:wrong"}))[1]
    assert "TELEGRAM_CHAT_ID" in (await examined(**{**right, "TELEGRAM_CHAT_ID": "1"}))[1]
    assert "cannot be reached" in (await examined(**{**right, "TELEGRAM_API_URL": "http://127.0.0.1:1"}))[1]
