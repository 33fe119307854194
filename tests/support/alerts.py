"""Short words for tests of alerts: journal entries, a desk that hears them, a Telegram that answers as told."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from wa_orchestrator.alerts.desk import Desk, Patience
from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.alerts.rules import meaning_of
from wa_orchestrator.store.journal import JournalEntry

TOKEN = "123456:telegram-s3cr3t-token"
CHAT = "-100200300"
PATIENCE = Patience(grace_ms=60_000, fold_ms=600_000, digest_ms=5_000)
PROXY, OTHER_PROXY = "px_00000000000a", "px_00000000000b"


def entry(type_: str, session_id: str = "", *, at: int = 0, **data: Any) -> JournalEntry:
    return JournalEntry(number=0, type=type_, session_id=session_id, at=at, data=data)


class Watch:
    """A desk and a clock in seconds; the desk is written out and read back after every step, as the store does."""

    def __init__(self) -> None:
        self.records: dict[str, dict[str, Any]] = {}
        self.told: list[Notice] = []
        self._version = 0

    def hear(self, at_s: float, type_: str, session_id: str = "", **data: Any) -> None:
        signal = meaning_of(entry(type_, session_id, **data))
        desk = Desk(self.records, PATIENCE, version=self._version)
        if signal:
            desk.hear(signal, int(at_s * 1000))
        self._keep(desk)

    def status(self, at_s: float, session_id: str, status: str, reason: str = "") -> None:
        self.hear(at_s, "session.status", session_id, status=status, was="?", reason=reason)

    def tick(self, at_s: float) -> list[Notice]:
        """What is told until then, since the last look."""
        desk = Desk(self.records, PATIENCE, version=self._version)
        desk.tick(int(at_s * 1000))
        self._keep(desk)
        told, self.told = self.told, []
        return told

    def _keep(self, desk: Desk) -> None:
        written, dropped, notices = desk.take()
        self.records = {**self.records, **written}
        for name in dropped:
            del self.records[name]
        self.told += notices
        self._version += 1


@dataclass
class BotApi:
    """What was sent, and how to answer: `answers` are used up first, then all is well. `down`: hangs up."""

    url: str = ""
    texts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    down: bool = False
    slow: asyncio.Event | None = None  # answers only once it is set

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.calls.append({"path": request.path, **body})
        if self.down:
            if request.transport:
                request.transport.abort()
            raise web.HTTPServiceUnavailable
        if self.answers:
            status, told = self.answers.pop(0)
            return web.json_response({"ok": False, **told}, status=status)
        if request.path != f"/bot{TOKEN}/{request.path.rsplit('/', 1)[1]}":
            return web.json_response({"ok": False, "error_code": 404, "description": "Not Found"}, status=404)
        if body["chat_id"] != CHAT:
            return web.json_response({"ok": False, "description": "Bad Request: chat not found"}, status=400)
        self.texts.append(body.get("text", ""))
        if self.slow:
            await self.slow.wait()
        return web.json_response({"ok": True, "result": {}})


@asynccontextmanager
async def bot_api(port: int = 0) -> AsyncIterator[BotApi]:
    """A server that plays Telegram's Bot API over real HTTP."""
    api = BotApi()
    app = web.Application()
    app.router.add_post("/{tail:.*}", api.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    assert site._server
    api.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"  # type: ignore[attr-defined]
    try:
        yield api
    finally:
        await runner.cleanup()


@contextmanager
def bot_api_beside() -> Iterator[BotApi]:
    """The same in a thread, for tests that are not asynchronous themselves."""
    ready: queue.SimpleQueue[BotApi] = queue.SimpleQueue()
    loop, over = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with bot_api() as running:
            ready.put(running)
            await over.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield ready.get(timeout=10)
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(timeout=10)
        loop.close()
