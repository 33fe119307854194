"""A whole server on an emptied store, with a worker's part played by the test: connect, claim, acknowledge."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import redis

from support.control_plane import Answer, ControlPlane, now_ms, quick_settings, signed_headers
from support.leftovers import end_all_below
from support.messages import PHONE, UNPACED
from support.servers import StoreServer
from wa_orchestrator.app import Running, running_server
from wa_orchestrator.clock import ManualClock

_seq = itertools.count(1)


class MessagePlane(ControlPlane):
    def __init__(self, server: Running, http: aiohttp.ClientSession, data: Path, clock: ManualClock | None) -> None:
        super().__init__(server, http, data)
        self._clock = clock

    def now(self) -> int:
        return self._clock.now_ms() if self._clock else now_ms()

    async def connected(self, phone: str = PHONE, *, limits: dict[str, Any] | None = UNPACED, **wanted: Any) -> str:
        """A connected session; without limits unless told otherwise (None: those of the table)."""
        if not await self.store.proxies.all():
            await self.add_proxies(3)
        session_id = await self.provision(phone=phone, **wanted)
        await self.connect(session_id, phone)
        if limits is not None:
            await self.good("PUT", f"/api/anti-ban/sessions/{session_id}/limits", limits)
        return session_id

    async def connect(self, session_id: str, phone: str = PHONE) -> None:
        data = {"phoneNumber": phone, "jid": f"{phone}:1@s.whatsapp.net"}
        assert (await self.worker_event(session_id, "CONNECTED", data)).status == 200

    async def worker_event(self, session_id: str, kind: str, data: dict[str, Any]) -> Answer:
        event = {"sessionId": session_id, "type": kind, "timestamp": self.now() + 1, "seq": next(_seq),
                 "stream": "test", "data": data}  # fmt: skip
        return await self.signed("/api/webhook", event, session_id=session_id, stamp=self.now())

    async def outbox(self, session_id: str, what: str, body: Any, *, signed_for: str = "") -> Answer:
        path = f"/api/worker/sessions/{session_id}/outbox/{what}"
        return await self.signed(path, body, session_id=signed_for or session_id, stamp=self.now())

    async def claim(self, session_id: str, *, most: int = 10, wait_ms: int = 5000) -> list[dict[str, Any]]:
        answer = await self.outbox(session_id, "claim", {"max": most, "waitMs": wait_ms})
        assert answer.status == 200, answer.body
        found: list[dict[str, Any]] = answer.json["messages"]
        return found

    async def ack(self, session_id: str, message: dict[str, Any]) -> bool:
        body = {"messageId": message["messageId"], "token": message["lease"]["token"], "sentAt": self.now(),
                "waMessageId": message["waMessageId"], "repeated": False}  # fmt: skip
        answer = await self.outbox(session_id, "ack", body)
        assert answer.status == 200, answer.body
        return bool(answer.json["repeated"])

    async def nack(self, session_id: str, message: dict[str, Any], code: str = "WA_REJECTED", **more: Any) -> Answer:
        body = {"messageId": message["messageId"], "token": message["lease"]["token"], "retryable": False,
                "error": {"code": code, "message": "no"}, **more}  # fmt: skip
        return await self.outbox(session_id, "nack", body)

    async def send(self, *, status: int = 202, **body: Any) -> Any:
        return await self.good("POST", "/api/v1/send", {"to": "972521111111", "text": "hello", **body}, status=status)

    async def story(self, message_id: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.good("GET", f"/api/v1/messages/{message_id}")
        return found

    async def bulk(self, lines: AsyncIterator[bytes] | list[dict[str, Any]], query: str = "") -> Any:
        """The results of an array, or of a stream of lines."""
        if isinstance(lines, list):
            return await self.good("POST", f"/api/v1/send/bulk{query}", lines, status=202)
        answer = await self.call("POST", "/api/v1/send/bulk", raw=lines,
                                 headers={"Content-Type": "application/x-ndjson"})  # fmt: skip
        assert answer.status == 202, answer.body
        return [json.loads(line) for line in answer.body.splitlines()]


def media_headers(session_id: str) -> dict[str, str]:
    return signed_headers(session_id, b"")


@contextlib.asynccontextmanager
async def message_plane(
    data: Path, server: StoreServer, *, clock: ManualClock | None = None, **environ: str
) -> AsyncIterator[MessagePlane]:
    with redis.Redis(port=server.port) as client:
        client.flushall()
    settings = quick_settings(data, **{"REDIS_URL": server.url, "DISPATCH_INTERVAL_MS": "5", **environ})
    try:
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            running_server(settings, clock=clock) as running,
            aiohttp.ClientSession(connector=connector) as http,
        ):
            yield MessagePlane(running, http, data, clock)
    finally:
        await end_all_below(data)
