"""One connection pool to the store. Calls made in the same turn of the event loop travel together.

The client's cost per call is the largest cost of a request, so concurrent calls are gathered into one batch:
one write, one read (docs/decisions/0003-coalesced-store-calls.md). The library makes and opens the connections;
batches bypass its pool, pipeline and streams, which cost more than the rest of a request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import hiredis
import redis.asyncio as redis
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
from wa_orchestrator.store.line import Line

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


# what is written, who waits, how the answer is shaped, and since when by the loop's clock
_Call = tuple[bytes, asyncio.Future[Any], Callable[[Any], Any] | None, float]


class _Batch:
    """Calls that travel together. Those that waited long for a line have that much less time left."""

    __slots__ = ("began", "calls", "line")

    def __init__(self, calls: list[_Call]) -> None:
        self.calls = calls
        self.began = time.perf_counter()
        self.line: Line | None = None

    def packed(self) -> bytes:
        return b"".join([call[0] for call in self.calls])

    def left_s(self) -> float:
        return max(_LEAST_S, _ANSWER_S - (asyncio.get_running_loop().time() - self.calls[0][3]))

    def tell(self, answers: list[Any] | BaseException) -> None:
        found = [answers] * len(self.calls) if isinstance(answers, BaseException) else answers
        for (_, future, shape, _), answer in zip(self.calls, found, strict=True):
            if future.done():
                continue
            if isinstance(answer, asyncio.CancelledError):
                future.cancel()
            elif isinstance(answer, BaseException):
                future.set_exception(translated(answer))
            else:
                _tell_shaped(future, shape, answer)


def _tell_shaped(future: asyncio.Future[Any], shape: Callable[[Any], Any] | None, answer: Any) -> None:
    try:
        future.set_result(shape(answer) if shape else answer)
    except Exception as error:  # an answer of a kind that the library does not expect concerns its caller alone
        future.set_exception(error)


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
        self._idle: list[Line] = []
        self._waiting: list[_Call] = []
        self._under_way: set[_Batch] = set()
        self._opening: set[asyncio.Task[None]] = set()

    async def call(self, *command: Any) -> Any:
        """Runs one command. Errors of the store itself come as RedisError, its absence as StoreUnavailable."""
        return await self.ask(*command)

    def ask(self, *command: Any) -> asyncio.Future[Any]:
        """The same for several at once without a task for each: ask all, then await one after the other."""
        loop = asyncio.get_running_loop()
        packed: bytes = hiredis.pack_command(command)
        future: asyncio.Future[Any] = loop.create_future()
        self._waiting.append((packed, future, self._shapes.get(command[0]), loop.time()))
        if len(self._waiting) == 1:
            loop.call_soon(self._flush)
        elif len(self._waiting) >= _LONGEST_BATCH:
            self._flush()
        return future

    def _flush(self) -> None:
        while self._waiting and len(self._under_way) < _BATCHES_AT_ONCE:
            batch = _Batch(self._waiting[:_LONGEST_BATCH])
            self._waiting = self._waiting[_LONGEST_BATCH:]
            self._under_way.add(batch)
            while self._idle:
                # one that the other side closed while it lay idle is passed over
                if (line := self._idle.pop()).is_open:
                    self._send(line, batch)
                    break
            else:
                task = asyncio.create_task(self._send_on_new_line(batch))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)

    async def _send_on_new_line(self, batch: _Batch) -> None:
        try:
            async with asyncio.timeout(batch.left_s()):
                line = await Line.open(self._maker.make_connection())  # type: ignore[no-untyped-call]
        except BaseException as error:
            self._ended(batch, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._send(line, batch)

    def _send(self, line: Line, batch: _Batch) -> None:
        def then(answers: list[Any] | BaseException) -> None:
            if line.is_open:
                self._idle.append(line)
            self._ended(batch, answers)

        batch.line = line
        line.ask(batch.packed(), answers=len(batch.calls), timeout_s=batch.left_s(), then=then)

    def _ended(self, batch: _Batch, answers: list[Any] | BaseException) -> None:
        self._under_way.discard(batch)
        failed = isinstance(answers, BaseException)
        instruments.store_calls["failed" if failed else "sent"] += len(batch.calls)
        instruments.store_batches.add(time.perf_counter() - batch.began)
        batch.tell(answers)
        if self._waiting:
            self._flush()

    async def close(self) -> None:
        while self._under_way:
            _, late = await asyncio.wait([call[1] for batch in self._under_way for call in batch.calls],
                                         timeout=_ANSWER_S)  # fmt: skip
            if late:
                break
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        for line in [*self._idle, *(batch.line for batch in self._under_way)]:
            if line is not None:
                line.close()
        self._idle.clear()
        await self.client.aclose()
