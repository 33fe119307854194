"""The HTTP side ends when it is told: at once where nobody is served, after the answer where somebody is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest

from wa_orchestrator.http import serving
from wa_orchestrator.http.asgi import Receive, Scope, Send


@dataclass
class Slow:
    """An app that answers when it is allowed to."""

    called: asyncio.Event = field(default_factory=asyncio.Event)
    may_answer: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.called.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def served(app: Slow) -> tuple[serving.Serving, str]:
    listening = serving.bound_socket("127.0.0.1", 0)
    url = serving.url_of(*listening.getsockname())
    return await serving.serve(app, listening), url


async def ask(http: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    """The answer's status and date."""
    async with http.get(url) as answer:
        await answer.read()
        return answer.status, answer.headers["date"]


async def test_idle_connections_do_not_hold_it_up(http: aiohttp.ClientSession) -> None:
    app = Slow()
    app.may_answer.set()
    running, url = await served(app)
    assert (await ask(http, url))[0] == 200  # the connection stays open
    began = time.monotonic()
    await running.end()
    assert time.monotonic() - began < serving._HTTP_STOP_S
    with pytest.raises(aiohttp.ClientConnectionError):
        await ask(http, url)


async def test_who_is_being_served_gets_the_answer(http: aiohttp.ClientSession) -> None:
    app = Slow()
    running, url = await served(app)
    asked = asyncio.create_task(ask(http, url))
    await app.called.wait()
    ending = asyncio.create_task(running.end())
    await asyncio.sleep(0.1)
    assert not ending.done()
    app.may_answer.set()
    assert (await asked)[0] == 200
    await ending


async def test_an_answer_that_never_comes_is_not_waited_for(
    http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_HTTP_STOP_S", 0.2)
    app = Slow()
    running, url = await served(app)
    asked = asyncio.create_task(ask(http, url))
    await app.called.wait()
    await asyncio.wait_for(running.end(), 15)
    assert (await asyncio.wait_for(asked, 15))[0] == 500


async def test_the_date_in_answers_goes_on(http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_DATE_S", 0.05)
    app = Slow()
    app.may_answer.set()
    running, url = await served(app)
    first = (await ask(http, url))[1]
    async with asyncio.timeout(15):
        while (await ask(http, url))[1] == first:
            await asyncio.sleep(0.05)
    await running.end()
