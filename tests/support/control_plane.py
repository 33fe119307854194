"""A whole control plane inside the test's own process, with real sockets and real worker processes."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import aiohttp
from fastapi.dependencies import models, utils

from support.leftovers import end_all_below
from wa_orchestrator.app import Running, running_server
from wa_orchestrator.settings import Settings, load_settings
from wa_orchestrator.worker_api.signature import session_secret, sign

API_KEY = "test-key"
WEBHOOK_SECRET = "test-webhook-secret"
PROXY_PASSWORD = "pr0xy-s3cr3t"
TINY_WORKER = f"{sys.executable} {Path(__file__).with_name('tiny_worker.py')}"
SILENT_WORKER = "sleep 600"  # lives, says nothing: the test speaks for it


def proxy_url(number: int, *, password: str = PROXY_PASSWORD) -> str:
    """A proxy on a port where nobody listens: no session of these tests needs more."""
    return f"socks5h://user{number}:{password}@127.0.0.1:{number + 1}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The error's code; empty when it is no error."""
        found = self.json
        return str(found["error"]["code"]) if isinstance(found, dict) and "error" in found else ""

    @property
    def field(self) -> str:
        return str(self.json["error"].get("details", {}).get("field", ""))


class ControlPlane:
    """The running server and short words for calling it."""

    def __init__(self, server: Running, http: aiohttp.ClientSession, data: Path) -> None:
        self.server = server
        self.http = http
        self.data = data
        self.url = server.url

    @property
    def store(self) -> Any:
        return self.server.rooms.store

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = API_KEY,
        raw: bytes | IO[bytes] | AsyncIterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = dict(headers or {})
        if key is not None:
            sent["X-Api-Key"] = key
        if body is not None:
            raw = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        async with self.http.request(method, self.url + path, data=raw, headers=sent, allow_redirects=False) as got:
            return Answer(got.status, {k.lower(): v for k, v in got.headers.items()}, await got.read())

    async def good(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        answer = await self.call(method, path, body)
        assert answer.status == status, answer.body
        return answer.json

    async def provision(self, **body: Any) -> str:
        made = await self.good("POST", "/api/sessions/provision", body, status=201)
        return str(made["sessionId"])

    async def status(self, session_id: str) -> str:
        found = await self.good("GET", f"/api/sessions/{session_id}/status")
        return str(found["status"])

    async def add_proxies(self, count: int) -> list[str]:
        return [
            str((await self.good("POST", "/api/v1/proxies", {"proxy": proxy_url(n)}, status=201))["id"])
            for n in range(count)
        ]

    # a worker's part -------------------------------------------------------------------------------------------
    async def event(
        self,
        session_id: str,
        kind: str,
        data: dict[str, Any] | None = None,
        *,
        seq: int | None = None,
        stream: str = "",
        at: int | None = None,
        signed_for: str | None = None,
        path: str = "/api/webhook",
    ) -> Answer:
        """An event as that session's worker would send it; `signed_for` uses another session's secret."""
        event: dict[str, Any] = {
            "sessionId": session_id, "type": kind, "timestamp": at if at is not None else now_ms(), "data": data or {},
        }  # fmt: skip
        if seq is not None:
            event["seq"] = seq
        if stream:
            event["stream"] = stream
        return await self.signed(path, event, session_id=signed_for or session_id)

    async def signed(self, path: str, body: Any, *, session_id: str, stamp: int | None = None) -> Answer:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = signed_headers(session_id, raw, stamp=stamp)
        return await self.call("POST", path, raw=raw, headers=headers, key=None)

    def folder(self, session_id: str) -> Path:
        return self.server.settings.sessions_path / session_id

    async def pid(self, session_id: str) -> int | None:
        for worker in await self.server.rooms.lifecycle._runner.list_running():
            if worker.session_id == session_id:
                return int(worker.handle.removeprefix("pid "))
        return None


def signed_headers(session_id: str, raw: bytes, *, stamp: int | None = None) -> dict[str, str]:
    when = str(now_ms() if stamp is None else stamp)
    return {
        "Content-Type": "application/json",
        "X-Webhook-Timestamp": when,
        "X-Webhook-Signature": sign(session_secret(WEBHOOK_SECRET, session_id), when, raw),
    }


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def quick_settings(data: Path, **environ: str) -> Settings:
    """Quick loops, no health check that could turn a proxy bad by itself."""
    return load_settings(
        {
            "API_KEY": API_KEY,
            "WEBHOOK_SECRET": WEBHOOK_SECRET,
            "ORCH_PORT": "0",
            "DATA_DIR": str(data),
            "WORKER_COMMAND": SILENT_WORKER,
            "PROVISIONING_INTERVAL_MS": "200",
            "MONITOR_INTERVAL_MS": "86400000",
            "PROXY_BAD_AFTER": "100",
            "PROXY_TIMEOUT_MS": "500",
            "PROXY_CHECK_TARGET": "127.0.0.1:1",
            "START_BUDGET": "20",
            **environ,
        }
    )


@contextlib.asynccontextmanager
async def control_plane(data: Path, **environ: str) -> AsyncIterator[ControlPlane]:
    """Started, served, stopped; with nothing left behind."""
    try:
        async with running_server(quick_settings(data, **environ)) as server, aiohttp.ClientSession() as http:
            yield ControlPlane(server, http, data)
    finally:
        await end_all_below(data)
        _forget_the_app()


def _forget_the_app() -> None:
    """FastAPI remembers every handler it has seen, and with it the whole app: hundreds of them fill the memory."""
    for module in (models, utils):
        for value in vars(module).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()
