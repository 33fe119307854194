"""A proxy's password appears in no log line, no error, no list answer and no key name, whatever is done with it."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
import structlog

from support.control_plane import API_KEY, TINY_WORKER, WEBHOOK_SECRET, ControlPlane, control_plane
from support.servers import StoreServer
from support.socks_server import SocksServer
from support.waiting import wait_until
from wa_orchestrator.logs import configure_logs

PASSWORD = "Pa55-of-the-proxy"
ENCODED = "Pa55%2Dof%2Dthe%2Dproxy"
PHONE = "972501234567"


@pytest.fixture(params=[True, False], ids=["json", "console"])
def logged(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """All logs at debug level, the libraries' own included."""
    root = logging.getLogger()
    before, level, kept = root.handlers[:], root.level, structlog.get_config()
    out = io.StringIO()
    configure_logs(level="debug", as_json=request.param, stream=out)
    root.setLevel(logging.DEBUG)
    yield out
    structlog.configure(**kept)
    root.handlers[:] = before
    root.setLevel(level)


async def test_the_password_is_found_nowhere(valkey: StoreServer, tmp_path: Path, logged: io.StringIO) -> None:
    with redis.Redis(port=valkey.port) as client:
        client.flushall()
    seen: list[bytes] = []
    async with control_plane(
        tmp_path / "data", REDIS_URL=valkey.url, WORKER_COMMAND=TINY_WORKER, PING_INTERVAL_MS="200",
        PROXY_URL_1=f"socks5h://first:{PASSWORD}@127.0.0.1:1",
    ) as plane:  # fmt: skip
        async with SocksServer(user="u", password=PASSWORD) as socks:
            await _do_everything(plane, socks, seen)
        client = plane.store.connection.client
        names = [key async for key in client.scan_iter("*")]
        for entry in await plane.store.journal.after(0, limit=1000):
            seen.append(repr(entry).encode())
        timelines = [await client.xrange(name) for name in names if name.startswith("session:events:")]
        seen.append(repr(timelines).encode())
    assert names
    assert not [name for name in names if PASSWORD in name or API_KEY in name]
    text = logged.getvalue()
    assert "request" in text
    assert "worker_started" in text
    for secret in (PASSWORD, ENCODED, API_KEY, WEBHOOK_SECRET, PHONE):
        assert secret not in text, [line for line in text.splitlines() if secret in line][:3]
    for answer in seen:
        assert PASSWORD.encode() not in answer, answer[:500]
        assert ENCODED.encode() not in answer
    for log_file in (tmp_path / "data" / "logs").iterdir():
        assert PASSWORD not in log_file.read_text()
    records = [file for file in (tmp_path / "data" / "run").rglob("*") if file.is_file()]
    assert not [file for file in records if PASSWORD in file.read_text(errors="replace")]


async def _do_everything(plane: ControlPlane, socks: SocksServer, seen: list[bytes]) -> None:
    """Everything that can be done with a proxy over HTTP, the failing things too."""

    async def call(method: str, path: str, body: object = None, raw: bytes | None = None) -> bytes:
        answer = await plane.call(method, path, body, raw=raw)
        assert answer.status != 500, answer.body
        seen.append(answer.body + repr(answer.headers).encode())
        return answer.body

    for number, bad in enumerate(
        [f"socks5://u:{PASSWORD}@h:1", f"http://u:{PASSWORD}@h:1", f"socks5h://u:{PASSWORD}@h", f"socks5h://:{PASSWORD}@h:1",
         f"socks5h://u:{PASSWORD}@h:1/x", f"socks5h://u:{PASSWORD}%@h:1", f"u:{PASSWORD}@h:1", f"socks5h://{PASSWORD}",
         f"{PASSWORD}://u@h:1", f"socks5h://u:{PASSWORD}@h:{PASSWORD}", "x" * 2000 + PASSWORD]
    ):  # fmt: skip
        await call("POST", "/api/v1/proxies", {"proxy": bad})
        await call("POST", "/api/sessions/provision", {"proxy": bad, "sessionId": f"bad{number}"})
        await call("POST", "/api/sessions/provision", {"proxyOverride": bad, "unknown": PASSWORD[:3]})
    await call("POST", "/api/v1/proxies", raw=f'{{"proxy": "socks5h://u:{PASSWORD}@h:1"'.encode())
    lines = f"h.example:1:u:{PASSWORD}\nu:{PASSWORD}@h2.example\nhttp://u:{PASSWORD}@h:1\nh:1:{PASSWORD}:"
    await call("POST", "/api/v1/proxies/import", raw=lines.encode())
    await call("POST", "/api/v1/proxies", {"proxy": socks.url})
    await call("POST", "/api/v1/proxies", {"proxy": socks.url})
    listed = (await plane.call("GET", "/api/v1/proxies")).json["proxies"]
    for fault in (None, "auth", "hang", "drop", "not-socks", "refuse-target"):
        socks.fault = fault
        for proxy in listed:
            if proxy["port"] == socks.port:
                await call("POST", f"/api/v1/proxies/{proxy['id']}/check")
                await call("GET", f"/api/v1/proxies/{proxy['id']}")
    socks.fault = None
    await call("POST", "/api/sessions/provision", {"proxy": socks.url, "sessionId": "a", "phone": PHONE})
    await call("POST", "/api/sessions/provision", {"sessionId": "b"})
    await call("POST", "/api/sessions/provision", {"sessionId": "b"})

    async def shown() -> bool:
        return (await plane.call("GET", "/api/sessions/b/qr")).status == 200

    await wait_until(shown, timeout_s=10)
    for path in ("/api/sessions", "/api/v1/proxies", "/api/sessions/b", "/api/sessions/b/events", "/health"):
        await call("GET", path)
    await plane.event("b", "CONNECTED", {"phoneNumber": PHONE})
    await plane.event("b", "PROXY_ERROR", {"error": f"cannot use socks5h://u:{PASSWORD}@h:1", "kind": "refused"})
    await plane.server.rooms.intake.close()
    for order in ("restart", "stop", "start"):
        await call("POST", f"/api/sessions/b/{order}")
    for proxy in listed:
        await call("DELETE", f"/api/v1/proxies/{proxy['id']}")
        await call("DELETE", f"/api/v1/proxies/{proxy['id']}?drain=true")
    for session in ("a", "b"):
        await call("DELETE", f"/api/sessions/{session}")
