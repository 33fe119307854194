"""Ends long polls whose time is over, many with one timer."""

from __future__ import annotations

import asyncio

# A thousand workers that wait 55 s end 18 waits a second. One by one, each finds the processor's caches cold, which
# costs more than the work itself; a few at a time, the first one warms them for the others.
_TOGETHER_S = 0.1  # longer is cheaper still, but a worker that is woken meanwhile waits for all of them
_LONG_S = 5.0  # from here on nobody minds a wait that is so much shorter than asked


class WaitEnds:
    def __init__(self) -> None:
        self._groups: dict[float, set[asyncio.Future[bool]]] = {}

    def add(self, waiting: asyncio.Future[bool], *, after_s: float) -> float:
        """`waiting` becomes False then, never later than asked; returns its moment, for `discard`."""
        loop = asyncio.get_running_loop()
        moment = loop.time() + after_s
        if after_s >= _LONG_S:
            moment -= moment % _TOGETHER_S
        group = self._groups.get(moment)
        if group is None:
            group = self._groups[moment] = set()
            loop.call_at(moment, self._end, moment)
        group.add(waiting)
        return moment

    def discard(self, waiting: asyncio.Future[bool], moment: float) -> None:
        """It ended otherwise."""
        group = self._groups.get(moment)
        if group is not None:
            group.discard(waiting)

    def _end(self, moment: float) -> None:
        for waiting in self._groups.pop(moment):
            end_wait(waiting)


def end_wait(waiting: asyncio.Future[bool]) -> None:
    if not waiting.done():
        waiting.set_result(False)
