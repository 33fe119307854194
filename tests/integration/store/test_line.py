"""A line to the store: answers in order, one caller's error is his alone, and a line in doubt is never used again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from redis.exceptions import InvalidResponse, ResponseError

from support.servers import StoreServer
from support.waiting import wait_until
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.store import connection as module
from wa_orchestrator.store.connection import Connection

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture
async def real(valkey: StoreServer) -> AsyncIterator[Connection]:
    found = Connection(valkey.url)
    yield found
    await found.close()


async def test_a_refused_command_leaves_its_neighbours_alone(real: Connection) -> None:
    await real.call("SET", "line:text", "x")
    asked = [real.ask("GET", "line:text"), real.ask("INCR", "line:text"), real.ask("HGETALL", "line:none")]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert (found[0], found[2]) == ("x", {})
    assert isinstance(found[1], ResponseError)
    assert await real.call("DEL", "line:text") == 1


async def test_what_cannot_be_sent_concerns_its_caller_alone(real: Connection) -> None:
    neighbour = real.ask("PING")
    with pytest.raises(TypeError):
        await real.call("SET", "line:text", None)
    assert await neighbour


async def test_a_large_answer_that_comes_in_pieces_is_whole(real: Connection) -> None:
    text = "ש" * 1_000_000
    await real.call("SET", "line:large", text)
    first, second = await asyncio.gather(real.call("GET", "line:large"), real.call("DEL", "line:large"))
    assert (first == text, second) == (True, 1)


async def test_a_line_that_the_store_closed_while_idle_is_replaced_unnoticed(
    real: Connection, valkey: StoreServer
) -> None:
    number = await real.call("CLIENT", "ID")
    (line,) = real._idle
    killer = Connection(valkey.url)
    await killer.call("CLIENT", "KILL", "ID", number)
    await killer.close()
    await wait_until(lambda: not line.is_open)
    assert await real.call("CLIENT", "ID") > number


async def test_many_turns_share_few_lines(real: Connection) -> None:
    async def one(number: int) -> Any:
        await asyncio.sleep(number % 7 / 1000)
        return await real.call("ECHO", str(number))

    assert await asyncio.gather(*(one(n) for n in range(2000))) == [str(n) for n in range(2000)]
    assert len(real._idle) <= module._BATCHES_AT_ONCE


# a store that misbehaves -----------------------------------------------------------------------------------------
@asynccontextmanager
async def answering(talk: Talk) -> AsyncIterator[Connection]:
    """A connection to a server that does the opening words properly and then what `talk` says."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        while (await _command(reader))[0] != b"ASK":
            writer.write(b"%1\r\n+proto\r\n:3\r\n" if _last == b"HELLO" else b"+OK\r\n")
        await talk(reader, writer)

    _last = b""

    async def _command(reader: asyncio.StreamReader) -> list[bytes]:
        nonlocal _last
        words = []
        for _ in range(int((await reader.readline())[1:])):
            length = int((await reader.readline())[1:])
            words.append((await reader.readexactly(length + 2))[:-2])
        _last = words[0]
        return words

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    found = Connection(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
    try:
        yield found
    finally:
        await found.close()
        for writer in writers:
            writer.close()
        server.close()
        await server.wait_closed()


async def test_a_store_that_hangs_is_told_in_time_and_its_line_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ANSWER_S", 0.3)
    monkeypatch.setattr(module, "_LEAST_S", 0.1)

    async def silent(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0)

    async with answering(silent) as connection:
        began = asyncio.get_running_loop().time()
        with pytest.raises(StoreUnavailable):
            await connection.call("ASK")
        assert 0.25 < asyncio.get_running_loop().time() - began < 2
        assert not connection._idle


async def test_a_line_that_answered_in_time_is_given_its_full_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One timer serves many batches: the first one's must not end the second."""
    monkeypatch.setattr(module, "_ANSWER_S", 0.4)
    monkeypatch.setattr(module, "_LEAST_S", 0.1)

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(4):
            await asyncio.sleep(0.25)
            writer.write(b"+late\r\n")
            await reader.read(100)

    async with answering(slow) as connection:
        assert [await connection.call("ASK") for _ in range(4)] == ["late"] * 4


@pytest.mark.parametrize("words", [b"+one\r\n+two\r\n", b"what is this\r\n", b"*2\r\n+half"])
async def test_a_line_in_doubt_is_never_used_again(words: bytes) -> None:
    async def odd(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(words)
        await writer.drain()
        writer.close()

    async with answering(odd) as connection:
        with pytest.raises((StoreUnavailable, InvalidResponse)):
            await connection.call("ASK")
        assert not connection._idle


async def test_news_that_nobody_asked_for_are_no_answer() -> None:
    async def newsy(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b">2\r\n+news\r\n+of the day\r\n+answer\r\n>2\r\n+more\r\n+news\r\n")

    async with answering(newsy) as connection:
        assert await connection.call("ASK") == "answer"


async def test_closing_waits_for_what_is_under_way_and_leaves_nothing_open() -> None:
    async def slow(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        writer.write(b"+done\r\n")

    async with answering(slow) as connection:
        asked = connection.ask("ASK")
        await asyncio.sleep(0.02)
        await connection.close()
        assert await asked == "done"
        assert not connection._idle
