"""The lock of a session: one holder at a time, and no long wait for a dead one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.servers import StoreServer, server_binary
from support.waiting import wait_until
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.errors import SessionBusy
from wa_orchestrator.store import Store, keys

_NAMES = ("ours", "theirs", "held_now")


async def test_one_holder_at_a_time(valkey_store: Store) -> None:
    inside: list[int] = []

    async def work(number: int) -> None:
        async with valkey_store.locks.hold("a"):
            assert not inside
            inside.append(number)
            await asyncio.sleep(0.02)
            inside.remove(number)

    await asyncio.gather(*(work(n) for n in range(6)))
    assert not await valkey_store.connection.call("EXISTS", keys.SESSION_LOCK("a"))


async def test_whoever_waits_too_long_is_told(valkey_store: Store) -> None:
    async with valkey_store.locks.hold("a"):
        with pytest.raises(SessionBusy):
            async with valkey_store.locks.hold("a", wait_s=0.1):
                pass
        async with valkey_store.locks.hold("b", wait_s=0.1):
            pass  # another session's lock is another lock


async def test_a_lock_that_was_taken_over_is_not_given_back(valkey_store: Store) -> None:
    async with valkey_store.locks.hold("a"):
        await valkey_store.connection.call("SET", keys.SESSION_LOCK("a"), "somebody else")
    assert await valkey_store.connection.call("GET", keys.SESSION_LOCK("a")) == "somebody else"


async def test_a_dead_holder_blocks_no_longer_than_seconds(valkey_store: Store) -> None:
    async with valkey_store.locks.hold("a"):
        left_ms = await valkey_store.connection.call("PTTL", keys.SESSION_LOCK("a"))
    assert 0 < left_ms <= 10_000


async def test_what_a_killed_process_of_this_server_held_is_taken_back_and_nothing_else(
    valkey: StoreServer, valkey_store: Store
) -> None:
    killed = Store(valkey.url, SystemClock())
    held = [
        asyncio.create_task(_hold_for_ever(killed, "ours", owner="server_1")),
        asyncio.create_task(_hold_for_ever(killed, "theirs", owner="server_2")),
        asyncio.create_task(_hold_for_ever(valkey_store, "held_now", owner="server_1")),
    ]

    async def all_held() -> bool:
        return bool(await valkey_store.connection.call("EXISTS", *map(keys.SESSION_LOCK, _NAMES)) == len(_NAMES))

    await wait_until(all_held)
    assert await valkey_store.locks.release_left_by("server_1") == 1
    names = {key async for key in valkey_store.connection.client.scan_iter("session:*:lock")}
    assert names == {keys.SESSION_LOCK("theirs"), keys.SESSION_LOCK("held_now")}
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    await killed.close()


async def _hold_for_ever(store: Store, session_id: str, *, owner: str) -> None:
    async with store.locks.hold(session_id, owner=owner):
        await asyncio.Event().wait()


async def test_a_lock_is_given_back_though_the_store_was_away_for_a_moment(tmp_path: Path) -> None:
    binary = server_binary("valkey")
    assert binary
    server = StoreServer(binary, tmp_path / "store")
    server.start()
    store = Store(server.url, SystemClock())
    try:
        async with store.locks.hold("a"):
            server.kill()
            starting = asyncio.create_task(asyncio.to_thread(server.start))
        await starting
        assert not await store.connection.call("EXISTS", keys.SESSION_LOCK("a"))
    finally:
        await store.close()
        server.stop()
