"""Background services: each has an owner that starts it, hears of its errors and waits for its end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

import structlog

from wa_orchestrator.metrics.instruments import rounds

log = structlog.get_logger()

T = TypeVar("T")


class Service(Protocol):
    """Something that works until told to stop."""

    async def run(self, stop: asyncio.Event) -> None: ...


# A pause this short is slept through: whoever stops a service waits longer than that for other things.
_SHORT_S = 0.05


async def wait_or_stop(stop: asyncio.Event, seconds: float) -> bool:
    """Sleeps; True as soon as `stop` is set, or at the end of a short pause, which costs a fraction of a long one."""
    if seconds <= _SHORT_S:
        await asyncio.sleep(seconds)
        return stop.is_set()
    try:
        # not `wait_for`: that makes a task each time
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return False
    return True


async def listening_again(
    listen: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event, *, tell: Callable[[Exception, int], None]
) -> None:
    """Listens to the store until told to stop; when it breaks off, `tell` hears of it now and then, and it goes on."""
    trouble = SameTrouble()
    while not stop.is_set():
        try:
            await listen(stop)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if times := trouble.again():
                tell(error, times)
            await wait_or_stop(stop, 1.0)


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or None as soon as `stop` is set: then the work is cancelled."""
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopped):
            task.cancel()
        await asyncio.gather(working, stopped, return_exceptions=True)


class SameTrouble:
    """Worth a line at the 1st, 2nd, 4th, 8th … time: a store that is away for an hour should not fill the disk."""

    def __init__(self, *, forgotten_after_s: float = 60.0, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._forgotten_after_s = forgotten_after_s
        self._monotonic = monotonic
        self._times = 0
        self._last = 0.0

    def again(self) -> int:
        """How many times by now, if that is worth a line; else 0."""
        now = self._monotonic()
        self._times = 1 if now - self._last > self._forgotten_after_s else self._times + 1
        self._last = now
        return self._times if self._times & (self._times - 1) == 0 else 0


async def repeat(
    once: Callable[[], Awaitable[object]],
    stop: asyncio.Event,
    *,
    every_s: float,
    name: str,
    wake: asyncio.Event | None = None,
) -> None:
    """Calls `once` again and again. An error is logged and the next round comes: a loop never dies silently.

    `wake` cuts the pause short, for work that should not wait for the next tick.
    """
    failures = 0
    rounds.begun(name, every_s=every_s)
    try:
        while not stop.is_set():
            try:
                await once()
                failures = 0
                rounds.ended(name, well=True)
            except asyncio.CancelledError:
                raise
            except Exception as error:
                failures += 1
                rounds.ended(name, well=False)
                # a store that is away for an hour should not fill the disk with the same line
                if failures & (failures - 1) == 0:
                    log.error("background_round_failed", service=name, error=str(error), failures=failures)
            if wake is None:
                await wait_or_stop(stop, every_s)
            else:
                await _wait_for_any(stop, wake, every_s)
    finally:
        rounds.over(name)


async def _wait_for_any(stop: asyncio.Event, wake: asyncio.Event, seconds: float) -> None:
    tasks = [asyncio.create_task(stop.wait()), asyncio.create_task(wake.wait())]
    try:
        await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    wake.clear()


class Services:
    """Runs services side by side and stops them in the reverse order of their start."""

    def __init__(self) -> None:
        self._running: list[tuple[str, asyncio.Event, asyncio.Task[None]]] = []

    def start(self, name: str, service: Service) -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(self._guard(name, service, stop), name=name)
        self._running.append((name, stop, task))

    async def _guard(self, name: str, service: Service, stop: asyncio.Event) -> None:
        try:
            await service.run(stop)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("service_died", service=name)

    async def stop(self, *, timeout_s: float = 10.0) -> None:
        for name, stop, task in reversed(self._running):
            stop.set()
            _, late = await asyncio.wait([task], timeout=timeout_s)
            if late:
                log.warning("service_stopped_hard", service=name)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._running.clear()
