"""What the dashboard asks of the store, on Valkey and on Redis: rows, tries, users, minutes."""

from __future__ import annotations

import asyncio

from wa_orchestrator.clock import ManualClock
from wa_orchestrator.dashboard.counting import SessionCounter
from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.sessions import ConnectedAs, EventNumber, SessionRequest
from wa_orchestrator.store.users import User


async def made(store: Store, number: int) -> str:
    request = SessionRequest(token=f"token-{number}", phone=f"97250{number:07}", label=f"Shop {number}")
    return (await store.sessions.reserve(request, scan_by=0)).session_id


async def test_rows_hold_what_single_reads_hold(store: Store, clock: ManualClock) -> None:
    for number in range(2):
        await store.proxies.add(ProxyAddress(f"proxy{number}.example", 1080))
    ids = [await made(store, number) for number in range(5)]
    connected = ConnectedAs(phone="972500000001")
    await store.sessions.bind(ids[1], EventNumber(at=clock.now_ms(), seq=1, stream="s"), connected)
    await store.connection.call("HSET", keys.LANE("972500000001"), "dayCount", 7, "dayKey", "x")
    rows = await store.rows.all()
    assert [row.session for row in rows] == await store.sessions.all()
    assert rows[1].first_connected_at == clock.now_ms()
    assert rows[1].lane == {"dayCount": "7", "dayKey": "x"}
    assert (rows[0].first_connected_at, rows[0].lane, rows[0].waiting) == (None, {}, 0)


async def test_rows_of_an_empty_store_and_of_strangers_are_none(store: Store) -> None:
    assert await store.rows.all() == []
    assert await store.rows.some(["nobody"]) == []


async def test_more_rows_than_one_step_reads(store: Store) -> None:
    for number in range(450):
        fields = ("id", f"w{number}", "status", "connected", "wanted", "running", "created", number)
        await store.connection.call("HSET", keys.SESSION(f"w{number}"), *fields)
        await store.connection.call("ZADD", keys.SESSIONS_ALL(), number, f"w{number}")
    assert [row.session.session_id for row in await store.rows.all()] == [f"w{number}" for number in range(450)]


async def test_tries_are_counted_per_address_and_altogether(store: Store) -> None:
    waits = await asyncio.gather(*(store.users.count_try("192.0.2.1") for _ in range(15)))
    assert waits.count(0) == 10
    assert all(0 <= wait <= 900 for wait in waits)
    assert await store.users.count_try("192.0.2.2") == 0
    for number in range(30):
        for _ in range(10):
            await store.users.count_try(f"198.51.100.{number}")
    assert await store.users.count_try("203.0.113.1") > 0, "two hundred from everywhere are enough"


async def test_pairing_by_link_never_locks_the_door(store: Store) -> None:
    for number in range(60):
        for _ in range(6):
            await store.users.count_pairing(f"worker_{number}")
    assert await store.users.count_pairing("worker_99") > 0
    assert await store.users.count_try("192.0.2.1") == 0


async def test_a_user_is_kept_replaced_and_removed(store: Store) -> None:
    user = User(name="dana", password_hash="h", generation="1", created_at=5)
    assert await store.users.put(user)
    assert await store.users.get("dana") == user
    assert not await store.users.put(User(name="dana", password_hash="h2", generation="2", created_at=6))
    assert [found.generation for found in await store.users.all()] == ["2"]
    assert await store.users.remove("dana")
    assert not await store.users.remove("dana")


async def test_an_ended_sign_in_is_remembered_as_long_as_it_would_last(store: Store) -> None:
    await store.users.end_sign_in("ticket", keep_ms=60_000)
    assert await store.users.sign_in_ended("ticket")
    assert not await store.users.sign_in_ended("other")
    assert 0 < await store.connection.call("PTTL", keys.SIGN_IN_ENDED("ticket")) <= 60_000


async def test_minutes_come_in_order_and_past_ones_are_read_once(store: Store, clock: ManualClock) -> None:
    await store.proxies.add(ProxyAddress("proxy.example", 1080))
    await made(store, 1)
    await SessionCounter(store).run_once()
    first = clock.now_ms() // 60_000
    clock.advance(seconds=300)
    minutes = await store.stats.minutes(last=10)
    assert [minute for minute, _ in minutes] == list(range(first - 4, first + 6))
    assert dict(minutes)[first] == {"sessionsConnected": 0, "sessionsTotal": 1}
    await store.connection.call("DEL", keys.STATS_MINUTE(str(first)))
    assert dict(await store.stats.minutes(last=10))[first], "known already"
