"""A whole server in a thread of its own for commands that block on it, with a worker that answers as told."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner, Result

from support.control_plane import API_KEY, ControlPlane, control_plane, now_ms, signed_headers
from wa_orchestrator.cli import app

T = TypeVar("T")
ZONE = ZoneInfo("Asia/Jerusalem")
# nine in the morning in a month: as typed, as the API tells it, as people read it
MOMENT = datetime.now(ZONE).replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=30)
TYPED, SHOWN = MOMENT.strftime("%Y-%m-%dT%H:%M"), MOMENT.strftime("%Y-%m-%d %H:%M:%S")
TOLD = MOMENT.astimezone(UTC).isoformat(timespec="milliseconds")
LATER = MOMENT.astimezone(UTC) + timedelta(hours=1)
_numbers = itertools.count(1)


class Worker:
    """Claims what is in a session's outbox and answers as told: ack, or nack with a code."""

    def __init__(self, plane: ControlPlane, session_id: str, *, refuse: str | None = None) -> None:
        self._plane = plane
        self._session_id = session_id
        self._refuse = refuse
        self.seen: list[dict[str, Any]] = []

    async def run(self) -> None:
        while True:
            for message in (await self._call("claim", {"max": 50, "waitMs": 200}))["messages"]:
                self.seen.append(message)
                await self._answer(message)

    async def _answer(self, message: dict[str, Any]) -> None:
        about = {"messageId": message["messageId"], "token": message["lease"]["token"]}
        if self._refuse:
            error = {"code": self._refuse, "message": "No such number."}
            await self._call("nack", {**about, "error": error, "retryable": False})
            return
        await self._call("ack", {**about, "sentAt": now_ms(), "waMessageId": message["waMessageId"]})
        await self._plane.event(
            self._session_id, "MESSAGE_STATUS", {"waMessageId": message["waMessageId"], "status": "delivered"}
        )

    async def _call(self, what: str, body: dict[str, Any]) -> Any:
        path = f"/api/worker/sessions/{self._session_id}/outbox/{what}"
        answer = await self._plane.signed(path, body, session_id=self._session_id)
        assert answer.status == 200, answer.body
        return answer.json

    async def media(self, media_id: str) -> bytes:
        path = f"/api/worker/sessions/{self._session_id}/media/{media_id}"
        return (await self._plane.call("GET", path, headers=signed_headers(self._session_id, b""), key=None)).body


class Server:
    """A control plane with its own loop and thread, so that a command may block on it."""

    def __init__(self, plane: ControlPlane, loop: asyncio.AbstractEventLoop) -> None:
        self.plane = plane
        self.url = plane.url
        self._loop = loop

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def connected(self, *, unpaced: bool = True) -> str:
        """A linked session of a new phone."""
        phone = f"9725000{next(_numbers):05}"
        session_id = self.do(self.plane.provision())
        self.do(self.plane.event(session_id, "CONNECTED", {"phoneNumber": phone, "fingerprint": "x"}, seq=1))
        if unpaced:
            assert ask(self, "limits", "set", session_id, "--unpaced").exit_code == 0
        return session_id

    def message(self, message_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.do(self.plane.good("GET", f"/api/v1/messages/{message_id}"))
        return found

    @contextmanager
    def worker(self, session_id: str, *, refuse: str | None = None) -> Iterator[Worker]:
        worker = Worker(self.plane, session_id, refuse=refuse)
        task = asyncio.run_coroutine_threadsafe(worker.run(), self._loop)
        yield worker
        assert not task.done() or task.exception() is None
        task.cancel()


@contextmanager
def served(data: Path, **environ: str) -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    @asynccontextmanager
    async def ready() -> AsyncIterator[ControlPlane]:
        async with control_plane(data, **environ) as plane:
            await plane.add_proxies(10)
            yield plane

    opened = ready()
    try:
        plane = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(timeout=30)
        yield Server(plane, loop)
    finally:
        asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(timeout=30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def prepare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ORCH_URL", "ORCH_PORT", "API_KEY", "DATA_DIR", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "Asia/Jerusalem")
    time.tzset()
    monkeypatch.setattr("wa_orchestrator.cli.messages._LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("wa_orchestrator.cli.send_csv._FIRST_PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)


def run(*words: str, input: str | bytes | None = None) -> Result:  # noqa: A002 - the runner's name
    result = CliRunner().invoke(app, list(words), input=input, prog_name="wa-orchestrator")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ask(server: Server, *words: str, input: str | bytes | None = None) -> Result:  # noqa: A002
    return run("--url", server.url, "--api-key", API_KEY, *words, input=input)


def asked(server: Server, *words: str, input: str | bytes | None = None) -> Any:  # noqa: A002
    result = ask(server, *words, "--json", input=input)
    return json.loads(result.stdout)


def asked_id(server: Server, session_id: str) -> str:
    sent = ask(server, "send", "972521111112", "Hello", "--session", session_id, "--wait")
    assert sent.exit_code == 1
    return sent.stdout.split(maxsplit=1)[0]


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)
