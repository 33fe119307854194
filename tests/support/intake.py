"""A small HTTP server in place of the control plane's event intake, to see what workers report."""

from __future__ import annotations

import hashlib
import hmac
import json
from types import TracebackType
from typing import Any

from aiohttp import web


class Intake:
    """Keeps the events whose signature is right; `answer` is the status given to all."""

    def __init__(self, secret: str, *, host: str = "127.0.0.1") -> None:
        self._secret = secret
        self._host = host
        self._runner: web.AppRunner | None = None
        self.answer = 200
        self.events: list[dict[str, Any]] = []
        self.url = ""

    async def __aenter__(self) -> Intake:
        app = web.Application()
        app.router.add_post("/api/webhook", self._take)
        self._runner = web.AppRunner(app, shutdown_timeout=0.2)  # a worker may be in mid-request
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0)
        await site.start()
        self.url = f"http://{self._host}:{self._runner.addresses[0][1]}/api/webhook"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._runner:
            await self._runner.cleanup()

    def types(self) -> list[str]:
        """Event types in the order they came, PING left out."""
        return [event["type"] for event in self.events if event["type"] != "PING"]

    async def _take(self, request: web.Request) -> web.Response:
        body = await request.read()
        stamp = request.headers["X-Webhook-Timestamp"]
        right = hmac.new(self._secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(right, request.headers["X-Webhook-Signature"]):
            return web.json_response({}, status=401)
        if self.answer == 200:
            self.events.append(json.loads(body))
        return web.json_response({"accepted": True, "duplicate": False}, status=self.answer)
