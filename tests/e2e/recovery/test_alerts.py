"""Alerts of a whole system: real workers lose their proxy, and the operator hears of it once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.alerts import CHAT, TOKEN, BotApi, bot_api_beside
from support.system import System, wait_for

PHONES = [f"97254{n:07}" for n in range(3)]


@pytest.fixture
def telegram() -> Iterator[BotApi]:
    with bot_api_beside() as running:
        yield running


def test_a_dead_proxy_is_one_alert_its_return_another_and_a_kill_doubles_nothing(
    tmp_path: Path, telegram: BotApi
) -> None:
    system = System(
        tmp_path, SIMULATOR_PROXIES=2, PROXY_TIMEOUT_MS=2000, MONITOR_INTERVAL_MS=1000,
        WORKER_ENV="RECONNECT_BASE_MS=100 RECONNECT_MAX_MS=500", TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_CHAT_ID=CHAT,
        TELEGRAM_API_URL=telegram.url, ALERT_DIGEST_MS=2000, LOW_FREE_SLOTS=0,
    )  # fmt: skip
    with system:
        home = system.api.get("/api/v1/proxies")["proxies"][0]
        place = f"{home['host']}:{home['port']}"
        sessions = [system.connected(phone, proxy=home["id"]) for phone in PHONES]
        wait_for(lambda: _connected(telegram) == 3, what="three connections to be told")

        system.fault(proxyDown=home["port"])
        failed = f"Proxy {place} has failed: 3 sessions moved to other proxies"
        wait_for(lambda: any(failed in text for text in telegram.texts), what="the failover to be told", timeout_s=60)
        for session_id in sessions:
            system.wait_status(session_id, "connected")
        wait_for(lambda: "connected again" in " ".join(telegram.texts), what="the sessions' return", timeout_s=60)

        system.kill()
        system.start()
        system.fault(proxyUp=home["port"])
        back = f"Proxy {place} works again"
        wait_for(lambda: any(back in text for text in telegram.texts), what="the proxy's return", timeout_s=90)

    lines = [line for text in telegram.texts for line in text.split("\n") if line.startswith("<b>")]
    assert sum(failed in line for line in lines) == 1
    assert sum(back in line for line in lines) == 1
    assert sum(line.startswith("<b>🔥") for line in lines) == 1
    assert len(lines) <= 7, lines
    assert TOKEN.split(":")[1] not in system.log.read_text()


def _connected(telegram: BotApi) -> int:
    """Sessions told as new, one by one or together."""
    count = 0
    for text in telegram.texts:
        for line in text.split("\n"):
            if line.endswith("is connected</b>"):
                count += 1
            elif "new sessions are connected" in line:
                count += int(line.split()[1])
    return count
