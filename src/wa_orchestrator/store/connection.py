"""One connection pool to the store. Calls made in the same turn of the event loop travel together.

The client's cost per call is the largest cost of a request, so concurrent calls are gathered into one batch:
one write, one read (docs/decisions/0003-coalesced-store-calls.md). The library makes, opens and closes the
connections; batches bypass its pool and pipeline, which cost more than the rest of a request.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import Any

import redis.asyncio as redis
from hiredis import pack_command
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)
from redis.exceptions import (
    ConnectionError as StoreConnectionError,
)
from redis.exceptions import (
    TimeoutError as StoreTimeoutError,
)

from wa_orchestrator.errors import StoreFull, StoreUnavailable
from wa_orchestrator.metrics import instruments

# One slow answer means that the store is in trouble; the caller gets a 503 instead of a hanging request.
_ANSWER_S = 10.0
_LEAST_S = 1.0  # what a batch is given that waited so long behind others that its time is over
_CONNECT_S = 3.0
_LONGEST_BATCH = 512
# While the store is slow, calls gather in larger batches instead of asking for ever more connections.
_BATCHES_AT_ONCE = 16

# So many records are read in one go: the loop and the store serve others in between.
BATCH = 200

_AWAY = (StoreConnectionError, StoreTimeoutError, BusyLoadingError, ReadOnlyError, OSError)
_CANNOT_WRITE = "MISCONF"  # its file cannot be written, so it takes no more changes; the library has no class for it


def translated(error: BaseException) -> BaseException:
    """What the rooms hear of an error: that the store is away, or full, or the error itself."""
    away: StoreUnavailable
    cannot_write = isinstance(error, ResponseError) and str(error).startswith(_CANNOT_WRITE)
    if cannot_write or isinstance(error, OutOfMemoryError):
        away = StoreFull()
    elif isinstance(error, _AWAY):
        away = StoreUnavailable()
    else:
        return error
    away.__cause__ = error
    return away


def batched(ids: list[str]) -> list[list[str]]:
    return [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]


class Connection:
    """Sends commands, gathered; translates the store's absence into StoreUnavailable."""

    def __init__(self, url: str) -> None:
        options: dict[str, Any] = {
            "decode_responses": True,
            "socket_connect_timeout": _CONNECT_S,
            "socket_timeout": _ANSWER_S,
            "socket_keepalive": True,
            # we decide what may be repeated: a blind retry of a script could run it twice
            "retry": Retry(NoBackoff(), 0),
            "max_connections": 64,
        }
        self.client: redis.Redis = redis.Redis.from_url(url, **options)
        # how the library shapes some answers (HGETALL becomes a dict); commands are written in capitals here
        self._shapes = dict(self.client.response_callbacks.items())
        # a batch has one time-out of its own instead of one per answer
        self._maker = redis.ConnectionPool.from_url(url, **{**options, "socket_timeout": None})
        self._idle: list[AbstractConnection] = []
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[Any], float]] = []  # since when, by the loop's clock
        self._flushes: set[asyncio.Task[None]] = set()

    async def call(self, *command: Any) -> Any:
        """Runs one command. Errors of the store itself come as RedisError, its absence as StoreUnavailable."""
        return await self.ask(*command)

    def ask(self, *command: Any) -> asyncio.Future[Any]:
        """The same for several at once without a task for each: ask all, then await one after the other."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((command, future, loop.time()))
        if len(self._waiting) == 1:
            loop.call_soon(self._start_flush)
        elif len(self._waiting) >= _LONGEST_BATCH:
            self._start_flush()
        return future

    def _start_flush(self) -> None:
        while self._waiting and len(self._flushes) < _BATCHES_AT_ONCE:
            batch, self._waiting = self._waiting[:_LONGEST_BATCH], self._waiting[_LONGEST_BATCH:]
            task = asyncio.create_task(self._flush(batch))
            self._flushes.add(task)
            task.add_done_callback(self._flushed)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        self._flushes.discard(task)
        self._start_flush()

    async def _flush(self, batch: list[tuple[tuple[Any, ...], asyncio.Future[Any], float]]) -> None:
        waited_s = asyncio.get_running_loop().time() - batch[0][2]
        began = time.perf_counter()
        try:
            answers = await self._exchange(
                [command for command, _, _ in batch], timeout_s=max(_LEAST_S, _ANSWER_S - waited_s)
            )
        except BaseException as error:
            answers = [error] * len(batch)
            instruments.store_calls["failed"] += len(batch)
        else:
            instruments.store_calls["sent"] += len(batch)
        instruments.store_batches.add(time.perf_counter() - began)
        for (_, future, _), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, asyncio.CancelledError):
                future.cancel()
            elif isinstance(answer, BaseException):
                future.set_exception(translated(answer))
            else:
                future.set_result(answer)

    async def _exchange(self, commands: list[tuple[Any, ...]], *, timeout_s: float) -> list[Any]:
        """The answers in order; one that the store refused is its error."""
        line = self._idle.pop() if self._idle else self._new_line()
        try:
            async with asyncio.timeout(timeout_s):
                # closed by the other side while it lay idle, or never opened
                if not line.is_connected or await line.can_read():
                    await line.disconnect(nowait=True)
                    await line.connect()  # type: ignore[no-untyped-call]
                packed = b"".join(map(pack_command, commands))  # a third of the library's own packing
                await line.send_packed_command(packed, check_health=False)
                answers = [await self._answer(line, command[0]) for command in commands]
        except BaseException:
            # what is still to come would be taken for the answers of the next batch
            await line.disconnect(nowait=True)
            raise
        self._idle.append(line)
        return answers

    def _new_line(self) -> AbstractConnection:
        line: AbstractConnection = self._maker.make_connection()  # type: ignore[no-untyped-call]
        return line

    async def _answer(self, line: AbstractConnection, command: str) -> Any:
        try:
            answer = await line.read_response(timeout=math.inf)
        except ResponseError as error:
            return error
        shaped = self._shapes.get(command)
        return shaped(answer) if shaped else answer

    async def close(self) -> None:
        while self._flushes:
            _, late = await asyncio.wait(self._flushes, timeout=_ANSWER_S)
            if late:
                break
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)
        await self.client.aclose()
