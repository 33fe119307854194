"""A receiver of webhooks: a real HTTP server that checks signatures, remembers everything and fails as it is told."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any

from aiohttp import web

Decide = Callable[[dict[str, Any]], int]


def taken(_event: dict[str, Any]) -> int:
    return 200


class Receiver:
    """`decide` gives the status of every answer; only what was answered with 2xx counts as received."""

    def __init__(self, decide: Decide = taken, *, secret: str = "") -> None:
        self.decide = decide
        self.secret = secret
        self.tries: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.bad_signatures = 0
        self.hold: asyncio.Event | None = None  # answers wait for it
        self.under_way = self.most_under_way = 0
        self.answer_headers: dict[str, str] = {}
        self.answer_body = b"{}"
        self.port = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def up(self) -> Receiver:
        app = web.Application(client_max_size=8 << 20)
        app.router.add_post("/{path:.*}", self._take)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def down(self) -> None:
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Receiver:
        return await self.up()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()

    async def _take(self, request: web.Request) -> web.Response:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            body = await request.read()
            if self.secret:
                stamp = request.headers["X-Webhook-Timestamp"].encode()
                right = hmac.new(self.secret.encode(), stamp + b"." + body, hashlib.sha256).hexdigest()
                if not hmac.compare_digest(f"sha256={right}", request.headers["X-Webhook-Signature"]):
                    self.bad_signatures += 1
                    return web.Response(status=401)
            event = json.loads(body)
            self.tries.append(event)
            if self.hold:
                await self.hold.wait()
            status = self.decide(event)
            if 200 <= status < 300:
                self.events.append(event)
                self.headers.append(dict(request.headers))
            return web.Response(status=status, headers=self.answer_headers, body=self.answer_body)
        finally:
            self.under_way -= 1

    # what was received -----------------------------------------------------------------------------------------
    def numbers(self) -> list[int]:
        return [event["number"] for event in self.events]

    def first_numbers(self) -> list[int]:
        """Without repeats, in the order of their first arrival."""
        return list(dict.fromkeys(self.numbers()))

    def out_of_order(self) -> list[str]:
        """Sessions of which an event came for the first time after a later one had come."""
        seen: dict[str | None, int] = defaultdict(int)
        known: set[int] = set()
        wrong: list[str] = []
        for event in self.events:
            session, number = event["sessionId"], event["number"]
            if number not in known and number < seen[session]:
                wrong.append(f"{session}: {number} after {seen[session]}")
            known.add(number)
            seen[session] = max(seen[session], number)
        return wrong
