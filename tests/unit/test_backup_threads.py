"""A thread that moves folders is never left behind by a cancelled caller."""

from __future__ import annotations

import asyncio
import threading

import pytest

from wa_orchestrator.backups.threads import in_thread


async def test_a_cancelled_caller_waits_for_its_thread() -> None:
    began, go_on, done = threading.Event(), threading.Event(), []

    def work() -> None:
        began.set()
        go_on.wait(10)
        done.append(True)

    task = asyncio.create_task(in_thread(work))
    await asyncio.to_thread(began.wait, 10)
    for _ in range(2):  # also when somebody insists
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert done == [True]


async def test_results_and_errors_come_through() -> None:
    assert await in_thread(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await in_thread(divmod, 7, 0)
