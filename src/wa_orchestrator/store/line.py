"""One open connection to the store: a batch goes out in one write, its answers are read where the socket is read.

No task and no stream stand between the socket and those who wait; at forty small calls a second, these were most of
what a call cost. The library still opens the connection: addresses, TLS, password and database are its matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as StoreConnectionError
from redis.exceptions import InvalidResponse
from redis.exceptions import TimeoutError as StoreTimeoutError

_MORE = object()  # the rest of an answer is still to come
Then = Callable[[list[Any] | BaseException], None]


class Line(asyncio.Protocol):
    """Carries one batch at a time."""

    def __init__(self, opened: AbstractConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._opened = opened
        self._transport: asyncio.Transport = opened._writer.transport  # type: ignore[union-attr, assignment]
        self._reader = hiredis.Reader(
            protocolError=InvalidResponse, replyError=BaseParser.parse_error, encoding="utf-8", notEnoughData=_MORE
        )
        self._answers: list[Any] = []
        self._expected = 0
        self._then: Then | None = None
        self._deadline = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    @classmethod
    async def open(cls, unopened: AbstractConnection) -> Line:
        """Lets the library open the connection, then takes its socket over."""
        try:
            await unopened.connect()  # type: ignore[no-untyped-call]
            line = cls(unopened)
            line._transport.set_protocol(line)
        except BaseException:
            await unopened.disconnect(nowait=True)
            raise
        return line

    def ask(self, packed: bytes, *, answers: int, timeout_s: float, then: Then) -> None:
        """Sends commands; `then` hears the answers (a refused one is its error), or the error that ended the line."""
        self._then, self._expected, self._answers = then, answers, []
        self._watch(timeout_s)
        self._transport.write(packed)

    @property
    def is_open(self) -> bool:
        return not self._ended and not self._transport.is_closing()

    def close(self) -> None:
        self._end(StoreConnectionError("closed by us"))

    # the time-out ----------------------------------------------------------------------------------------------
    def _watch(self, timeout_s: float) -> None:
        """One timer for many batches: it looks when the first one of them would be late, and then again."""
        self._deadline = self._loop.time() + timeout_s
        if self._timer is not None and self._timer.when() > self._deadline:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._timer = self._loop.call_at(self._deadline, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._then is None:
            return
        if self._loop.time() >= self._deadline:
            self._end(StoreTimeoutError("the store does not answer"))
        else:
            self._timer = self._loop.call_at(self._deadline, self._look)

    # what the socket says ----------------------------------------------------------------------------------------
    def data_received(self, data: bytes) -> None:
        try:
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not _MORE:
                if not isinstance(answer, hiredis.PushNotification):  # news that nobody asked for are no answer
                    self._answers.append(answer)
        except Exception as error:
            self._end(error)
            return
        if len(self._answers) < self._expected:
            return
        if self._then is None or len(self._answers) > self._expected:
            self._end(InvalidResponse("an answer that nobody asked for"))
            return
        then, self._then, self._expected = self._then, None, 0
        then(self._answers)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or StoreConnectionError("closed by the store"))

    def _end(self, error: BaseException) -> None:
        """Not to be used again: what is still to come would be taken for the answers of the next batch."""
        if self._ended:
            return
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        self._transport.abort()
        self._opened._close()  # type: ignore[no-untyped-call]
        then, self._then = self._then, None
        if then is not None:
            then(error)
