"""One connection pool to the store. Calls made in the same turn of the event loop travel together.

The client's cost per call is the largest cost of a request, so concurrent calls are gathered into one pipeline:
one write, one read (docs/decisions/0003-coalesced-store-calls.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, cast

import redis.asyncio as redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    BusyLoadingError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import (
    ConnectionError as StoreConnectionError,
)
from redis.exceptions import (
    TimeoutError as StoreTimeoutError,
)

from wa_orchestrator.errors import StoreUnavailable

# One slow answer means that the store is in trouble; the caller gets a 503 instead of a hanging request.
_ANSWER_S = 10.0
_CONNECT_S = 3.0
_LONGEST_BATCH = 512
# While the store is slow, calls gather in larger batches instead of asking for ever more connections.
_BATCHES_AT_ONCE = 16

_AWAY = (StoreConnectionError, StoreTimeoutError, BusyLoadingError, ReadOnlyError, OutOfMemoryError, OSError)


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
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[Any]]] = []
        self._flushes: set[asyncio.Task[None]] = set()

    async def call(self, *command: Any) -> Any:
        """Runs one command. Errors of the store itself come as RedisError, its absence as StoreUnavailable."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((command, future))
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._start_flush)
        elif len(self._waiting) >= _LONGEST_BATCH:
            self._start_flush()
        try:
            return await future
        except _AWAY as error:
            raise StoreUnavailable from error

    def _start_flush(self) -> None:
        while self._waiting and len(self._flushes) < _BATCHES_AT_ONCE:
            batch, self._waiting = self._waiting[:_LONGEST_BATCH], self._waiting[_LONGEST_BATCH:]
            task = asyncio.create_task(self._flush(batch))
            self._flushes.add(task)
            task.add_done_callback(self._flushed)

    def _flushed(self, task: asyncio.Task[None]) -> None:
        self._flushes.discard(task)
        self._start_flush()

    async def _flush(self, batch: list[tuple[tuple[Any, ...], asyncio.Future[Any]]]) -> None:
        try:
            if len(batch) == 1:
                answers = [await self._single(batch[0][0])]
            else:
                pipe = self.client.pipeline(transaction=False)
                for command, _ in batch:
                    pipe.execute_command(*command)
                answers = await pipe.execute(raise_on_error=False)
        except BaseException as error:
            answers = [error] * len(batch)
        for (_, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, asyncio.CancelledError):
                future.cancel()
            elif isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    async def _single(self, command: tuple[Any, ...]) -> Any:
        try:
            return await cast(Awaitable[Any], self.client.execute_command(*command))  # type: ignore[no-untyped-call]
        except RedisError as error:
            return error

    async def close(self) -> None:
        while self._flushes:
            _, late = await asyncio.wait(self._flushes, timeout=_ANSWER_S)
            if late:
                break
        await self.client.aclose()
