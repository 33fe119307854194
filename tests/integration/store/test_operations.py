"""One backup, restore or export at a time, over all orchestrators."""

from __future__ import annotations

import asyncio

import pytest

from wa_orchestrator.clock import ManualClock
from wa_orchestrator.errors import BackupBusy, BackupOlder
from wa_orchestrator.store import Store
from wa_orchestrator.store.operations import ALIVE_MS


async def test_of_many_orders_at_once_one_is_taken(store: Store) -> None:
    answers = await asyncio.gather(*(store.operations.order("backup", {}) for _ in range(10)), return_exceptions=True)
    assert sum(isinstance(answer, str) for answer in answers) == 1
    assert sum(isinstance(answer, BackupBusy) for answer in answers) == 9


async def test_an_order_is_claimed_once(store: Store) -> None:
    await store.operations.order("restore", {"backupId": "b"})
    claimed = await asyncio.gather(*(store.operations.claim() for _ in range(5)))
    (found,) = [operation for operation in claimed if operation]
    assert (found.kind, found.state, found.arguments) == ("restore", "running", {"backupId": "b"})


async def test_nobody_takes_up_an_order_that_is_too_old(store: Store, clock: ManualClock) -> None:
    await store.operations.order("backup", {})
    clock.advance(seconds=ALIVE_MS / 1000)
    assert await store.operations.claim() is None
    await store.operations.order("backup", {})


async def test_a_dead_operation_blocks_no_longer_than_its_sign_of_life(store: Store, clock: ManualClock) -> None:
    first = await store.operations.order("backup", {})
    await store.operations.claim()
    clock.advance(seconds=ALIVE_MS / 1000 - 1)
    assert await store.operations.keep_alive(first)
    clock.advance(seconds=ALIVE_MS / 1000 - 1)
    with pytest.raises(BackupBusy):
        await store.operations.order("backup", {})
    clock.advance(seconds=2)
    second = await store.operations.order("backup", {})
    # the first one comes back to life, too late
    assert not await store.operations.report(first, phase="copying")
    assert not await store.operations.end(first, event="backup.created", note={})
    found = await store.operations.get()
    assert found
    assert (found.operation_id, found.state) == (second, "ordered")


async def test_its_end_is_told_once_with_its_reason(store: Store) -> None:
    operation_id = await store.operations.order("restore", {"proxy": "socks5h://user:pass@proxy.example:1"})
    await store.operations.claim()
    error = BackupOlder(details={"sessions": ["worker_1"]})
    assert await store.operations.end(operation_id, error=error, event="restore.failed", note={"code": error.code})
    assert not await store.operations.end(operation_id, event="restore.done", note={})
    found = await store.operations.get()
    assert found
    assert found.state == "failed"
    assert found.arguments == {}  # may hold a proxy's password
    with pytest.raises(BackupOlder) as raised:
        found.raise_error()
    assert raised.value.details == {"sessions": ["worker_1"]}
    assert [entry.type for entry in await store.journal.after(0, limit=10)] == ["restore.failed"]
