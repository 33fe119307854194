"""Waiting for something to become true, with a limit, instead of sleeping blindly."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable


async def wait_until(
    condition: Callable[[], object] | Callable[[], Awaitable[object]], *, timeout_s: float = 20.0
) -> None:
    """Returns as soon as the condition holds; fails with its name when it does not in time.

    The limit is for what never comes: it is long, because the machine may be busy with other things.
    """
    until = time.monotonic() + timeout_s
    while True:
        result = condition()
        if isawaitable(result):
            result = await result
        if result:
            return
        if time.monotonic() > until:
            raise AssertionError(f"not true within {timeout_s} s: {getattr(condition, '__name__', condition)}")
        await asyncio.sleep(0.01)
