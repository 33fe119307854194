"""Many processes on one registry at the same moment, also while the store is killed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from support.registry import add_proxies, assert_sound
from support.registry_load import PROXIES
from support.servers import StoreServer, server_binary
from support.waiting import wait_until
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.store import Store, keys

TESTS = Path(__file__).resolve().parents[2]
LOAD = TESTS / "support" / "registry_load.py"
CAP = 4


@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[StoreServer]:
    """A store of its own, which the test may kill. It writes every change to disk before it answers."""
    binary = server_binary("valkey")
    assert binary
    server = StoreServer(binary, tmp_path / "store")
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def registry(own_store: StoreServer) -> AsyncIterator[Store]:
    store = Store(own_store.url, SystemClock())
    await add_proxies(store, PROXIES)
    yield store
    await store.close()


async def start(count: int, *arguments: str) -> list[asyncio.subprocess.Process]:
    """That many processes, all begun in the same moment; `{}` in the arguments is the number of the process."""
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    pipe = asyncio.subprocess.PIPE
    processes = []
    for number in range(count):
        command = [sys.executable, str(LOAD), *(argument.format(number) for argument in arguments)]
        processes.append(await asyncio.create_subprocess_exec(*command, env=env, stdin=pipe, stdout=pipe, stderr=pipe))
    for process in processes:
        assert process.stdout
        assert await asyncio.wait_for(process.stdout.readline(), 30) == b"ready\n"
    for process in processes:
        assert process.stdin
        process.stdin.write(b"go\n")
    return processes


async def finish(process: asyncio.subprocess.Process) -> str:
    out, problems = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, problems.decode()
    return out.decode()


async def delete_all(registry: Store) -> None:
    for session_id in await registry.sessions.all_ids():
        await registry.sessions.delete(session_id, keep_s=60)


async def assert_all_free(registry: Store) -> None:
    await assert_sound(registry)
    for proxy in await registry.proxies.all():
        assert proxy.sessions == ()
        assert int(await registry.connection.call("GET", keys.COUNTER_PROXY(proxy.proxy_id)) or 0) == 0


async def assert_phones_agree(registry: Store) -> None:
    """What the indexes of phones say is what the records say."""
    call = registry.connection.call
    sessions = {s.session_id: s for s in await registry.sessions.all()}
    async for name in registry.connection.client.scan_iter("phone:session:*"):
        phone = name.rsplit(":", 1)[1]
        for session_id in await call("SMEMBERS", name):
            assert session_id in sessions, f"{phone} names {session_id}, which is gone"
            assert sessions[session_id].phone == phone
    async for name in registry.connection.client.scan_iter("phone:proxy:*"):
        phone, proxy = name.rsplit(":", 1)[1], await call("GET", name)
        assert await call("SISMEMBER", keys.PROXY_PHONES(proxy), phone) == 1


async def test_two_hundred_reservations_at_once_fill_every_slot_and_no_more(
    registry: Store, own_store: StoreServer
) -> None:
    processes = await start(4, own_store.url, "reserve", "50")
    made = [int(await finish(process)) for process in processes]
    assert sum(made) == PROXIES * CAP
    assert {len(p.sessions) for p in await registry.proxies.all()} == {CAP}
    await assert_sound(registry)
    await delete_all(registry)
    await assert_all_free(registry)


async def test_provisions_deletes_failovers_and_scans_at_once_leave_the_registry_sound(
    registry: Store, own_store: StoreServer
) -> None:
    processes = await start(3, own_store.url, "{}", "25")

    async def watch() -> int:
        """The cap is looked at all the while, not only at the end."""
        looks = 0
        while any(process.returncode is None for process in processes):
            for proxy in await registry.proxies.all():
                assert len(proxy.sessions) <= CAP
            looks += 1
            await asyncio.sleep(0.02)
        return looks

    watching = asyncio.create_task(watch())
    for process in processes:
        await finish(process)
    assert await watching > 5
    assert await registry.sessions.all_ids(), "nothing was left to look at"
    await assert_sound(registry)
    await assert_phones_agree(registry)
    await delete_all(registry)
    await assert_all_free(registry)


async def test_a_store_that_is_killed_in_the_middle_leaks_nothing(registry: Store, own_store: StoreServer) -> None:
    # long enough to outlast three kills on a fast machine, too
    processes = await start(3, own_store.url, "1{}", "120")
    killed = 0
    while any(process.returncode is None for process in processes) and killed < 3:
        await asyncio.sleep(0.3)
        await asyncio.to_thread(own_store.kill)
        await asyncio.sleep(0.1)
        await asyncio.to_thread(own_store.start)
        killed += 1
    for process in processes:
        await finish(process)
    assert killed == 3
    await assert_sound(registry)
    await assert_phones_agree(registry)
    # what was reserved and never confirmed is found again by its name, whoever made it
    half_made = await registry.sessions.unconfirmed()
    assert half_made <= set(await registry.sessions.all_ids())
    for session_id in half_made:
        await registry.sessions.delete(session_id, keep_s=60, only_unconfirmed=True)
    assert await registry.sessions.unconfirmed() == frozenset()
    await assert_sound(registry)
    await delete_all(registry)
    await assert_all_free(registry)


async def test_reservations_during_a_kill_of_the_store_still_fill_exactly_the_slots(
    registry: Store, own_store: StoreServer
) -> None:
    processes = await start(4, own_store.url, "reserve", "50")

    async def some_made() -> bool:
        return bool(await registry.sessions.all_ids())

    await wait_until(some_made)
    own_store.kill()
    assert [process for process in processes if process.returncode is None], "the kill came too late to matter"
    await asyncio.to_thread(own_store.start)
    made = [int(await finish(process)) for process in processes]
    assert sum(made) == PROXIES * CAP, "a lost answer became a second session, or a lost one"
    assert len(await registry.sessions.all_ids()) == PROXIES * CAP
    await assert_sound(registry)
    await delete_all(registry)
    await assert_all_free(registry)
