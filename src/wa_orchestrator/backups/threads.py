"""Work in a thread that is never left behind: whoever is cancelled waits for it, then goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Like `asyncio.to_thread`. But a cancelled caller must not let go of its locks while folders are still renamed."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **named))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # nobody is there to hear of it
        raise cancelled
    return task.result()
