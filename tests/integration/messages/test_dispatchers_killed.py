"""Several processes dispatch, claim and acknowledge on a real store and are killed at any moment: nothing is lost."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from support.messages import PHONE, UNPACED, leftovers, linked, new_message
from support.servers import StoreServer, running_server
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.store import Store, StoreRules, keys

_PROGRAM = Path(__file__).parents[2] / "support" / "message_process.py"
_MESSAGES, _PHONES, _RECIPIENTS = 1600, 4, 100
_RULES = StoreRules(message_lease_ms=600)


def _start(server: StoreServer, role: str, sessions: list[str], ledger: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(_PROGRAM), role, server.url, str(_RULES.message_lease_ms), str(ledger), *sessions],
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("seed", [1])
async def test_killed_processes_lose_nothing_and_double_nothing(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    with running_server("valkey", tmp_path / "store") as server:
        store = Store(server.url, SystemClock(), _RULES)
        sessions = []
        for number in range(_PHONES):
            sessions.append(await linked(store, f"{PHONE[:-1]}{number}"))
            await store.lanes.set_override(sessions[-1], UNPACED)
        ids = []
        for number in range(_MESSAGES):
            message = new_message(to=f"97252{number % _RECIPIENTS:07}", session_id=sessions[number % _PHONES])
            ids.append((await store.messages.enqueue(message))["messageId"])

        ledger = tmp_path / "ledger"
        ledger.mkdir()
        roles = ["dispatch", "dispatch", "work", "work", "work"]
        running = [(role, _start(server, role, sessions, ledger)) for role in roles]
        kills = 0
        deadline = time.monotonic() + 90
        try:
            while (await store.messages.counts())["today"].get("sent", 0) < _MESSAGES and time.monotonic() < deadline:
                time.sleep(dice.uniform(0.1, 0.4))  # noqa: ASYNC251 - nothing else runs here
                if kills < 9:
                    role, process = running.pop(dice.randrange(len(running)))
                    process.kill()
                    process.wait(timeout=10)
                    kills += 1
                    running.append((role, _start(server, role, sessions, ledger)))
        finally:
            for _, process in running:
                process.send_signal(signal.SIGKILL)
                process.wait(timeout=10)

        records = await store.messages.many(ids)
        assert Counter(record["state"] for record in records) == {"sent": _MESSAGES}
        today = (await store.messages.counts())["today"]
        assert (today["accepted"], today["sent"], today.get("failed", 0)) == (_MESSAGES, _MESSAGES, 0)
        events = Counter(
            e.data["messageId"] for e in await store.journal.after(0, limit=20_000) if e.type == "message.sent"
        )
        assert set(events.values()) == {1}
        assert len(events) == _MESSAGES
        for number in range(_PHONES):
            lane = await store.lanes.get(f"{PHONE[:-1]}{number}")
            assert int(lane["dayCount"]) == _MESSAGES // _PHONES
        assert await leftovers(store) == []
        assert await store.connection.call("ZCARD", keys.CLAIMS_EXPIRING()) == 0
        assert kills > 5
        # each wrote down what it sent: every message once, however often it was handed out
        sent = Counter(line for file in ledger.iterdir() for line in file.read_text().split())
        assert len(sent) == _MESSAGES
        await store.close()
