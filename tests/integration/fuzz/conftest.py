"""One server in a process of its own for all fuzzing, called over one kept connection; afterwards it must be whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.control_plane import API_KEY, SILENT_WORKER, WEBHOOK_SECRET, proxy_url
from support.fuzzed import MOST_MEMORY_MB, PHONE, SESSION, Fuzzed
from support.servers import running_server as store_server
from support.system import System


@pytest.fixture(scope="package")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    folder = tmp_path_factory.mktemp("fuzz")
    settings = {
        "API_KEY": API_KEY,
        "WEBHOOK_SECRET": WEBHOOK_SECRET,
        "WORKER_COMMAND": SILENT_WORKER,
        "PROXY_BAD_AFTER": 100,
        "PROXY_TIMEOUT_MS": 200,
        "PROXY_CHECK_TARGET": "127.0.0.1:1",
        "MAX_MEDIA_BYTES": 200_000,
        "BACKUP_AT": "off",
    }
    with (
        store_server("valkey", folder / "store") as store,
        System(folder / "system", simulate=False, **settings, REDIS_URL=store.url) as system,
    ):
        for number in range(3):
            system.api.post("/api/v1/proxies", {"proxy": proxy_url(number)})
        system.provision(sessionId=SESSION, phone=PHONE)
        system.provision(sessionId="neighbour")
        system.unpaced(SESSION)
        opened = Fuzzed(system, store)
        yield opened
        opened.close()
        log = system.log.read_text(errors="replace")
        assert "request_failed" not in log, log[log.index("request_failed") - 200 :][:3000]
        assert "Traceback" not in log, log[log.index("Traceback") - 200 :][:3000]
        assert "service_died" not in log


@pytest.fixture(autouse=True)
def stays_whole(fuzzed: Fuzzed) -> Iterator[None]:
    """After each test: alive, of sane size, and the neighbour is as it was."""
    before = fuzzed.system.session("neighbour")
    yield
    assert fuzzed.call("GET", "/ready")[0] == 200
    assert fuzzed.memory_mb() < MOST_MEMORY_MB
    after = fuzzed.system.session("neighbour")
    for field in ("status", "phone", "proxy", "label", "reason"):
        assert after.get(field) == before.get(field), field
    proxies = fuzzed.system.api.get("/api/v1/proxies")["proxies"]
    held = [session for proxy in proxies for session in proxy["sessions"]]
    assert len(held) == len(set(held))
