"""The pool: adding, marking, draining, removing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.registry import PHONE, add_proxies, address, assert_sound, connect, reserve
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.store import Store, keys


async def test_adding_twice_is_one_proxy_and_takes_over_a_new_password(store: Store) -> None:
    assert await store.proxies.add(address(1))
    assert not await store.proxies.add(replace(address(1), password="changed"))
    (proxy,) = await store.proxies.all()
    assert proxy.address.password == "changed"
    assert proxy.status == ProxyStatus.ACTIVE


async def test_a_bad_proxy_takes_no_session_until_it_recovers(store: Store, clock: ManualClock) -> None:
    (proxy,) = await add_proxies(store, 1)
    await store.proxies.mark(proxy, ProxyStatus.BAD, error="It hangs.", kind="timeout")
    with pytest.raises(errors.NoProxyAvailable):
        await reserve(store)
    found = await store.proxies.get(proxy)
    assert found is not None
    assert (found.bad_at, found.last_error_kind) == (clock.now_ms(), "timeout")
    await store.proxies.mark(proxy, ProxyStatus.ACTIVE)
    await reserve(store)
    found = await store.proxies.get(proxy)
    assert found is not None
    assert found.bad_at is None
    await assert_sound(store)


async def test_marking_bad_again_keeps_the_first_time(store: Store, clock: ManualClock) -> None:
    (proxy,) = await add_proxies(store, 1)
    await store.proxies.mark(proxy, ProxyStatus.BAD, error="x", kind="auth")
    began = clock.now_ms()
    clock.advance(seconds=60)
    await store.proxies.mark(proxy, ProxyStatus.TESTING)
    await store.proxies.mark(proxy, ProxyStatus.BAD, error="x", kind="auth")
    found = await store.proxies.get(proxy)
    assert found is not None
    assert found.bad_at == began
    entries = await store.journal.after(0, limit=100)
    assert [e.type for e in entries].count("proxy.bad") == 1


async def test_a_proxy_with_sessions_is_not_removed_without_drain(store: Store) -> None:
    first, second = await add_proxies(store, 2)
    made = await reserve(store, proxy_id=first)
    with pytest.raises(errors.ProxyInUse):
        await store.proxies.remove(first, drain=False)
    assert await store.proxies.remove(first, drain=True) == [made.session_id]
    assert (await reserve(store)).proxy_id == second, "a draining proxy takes no new session"
    await store.sessions.move(made.session_id, reason="DRAIN", from_proxy=first, healthy=True)
    assert await store.proxies.remove(first, drain=True) == []
    assert await store.proxies.get(first) is None
    await assert_sound(store)


async def test_removal_forgets_the_bindings_to_it(store: Store) -> None:
    (proxy,) = await add_proxies(store, 1)
    made = await reserve(store)
    await connect(store, made.session_id, PHONE)
    await store.sessions.delete(made.session_id, keep_s=60)
    await store.proxies.remove(proxy, drain=False)
    assert await store.sessions.bound_proxy(PHONE) is None
    left = {key async for key in store.connection.client.scan_iter(f"*{proxy}*")}
    assert left == set()


async def test_no_key_name_carries_a_password(store: Store) -> None:
    await store.proxies.add(replace(address(1), user="someuser", password="s3cr3t-pass"))
    made = await reserve(store)
    await connect(store, made.session_id, PHONE)
    names = [key async for key in store.connection.client.scan_iter("*")]
    assert names
    assert not [n for n in names if "s3cr3t-pass" in n or "someuser" in n]
    for entry in await store.journal.after(0, limit=100):
        assert "s3cr3t-pass" not in str(entry)


async def test_the_journal_numbers_without_gaps(store: Store) -> None:
    await add_proxies(store, 2)
    for _ in range(3):
        await reserve(store)
    entries = await store.journal.after(0, limit=100)
    assert [e.number for e in entries] == list(range(1, len(entries) + 1))
    assert await store.journal.last_number() == len(entries)
    timeline = await store.journal.timeline("worker_1", limit=10)
    assert [e.type for e in timeline] == ["session.created"]


async def test_every_key_used_is_described(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store, phone=PHONE)
    await store.commands.send(made.session_id, "logout", {})
    await connect(store, made.session_id, PHONE)
    patterns = [key.pattern.replace("{}", "") for key in keys.ALL]
    async for name in store.connection.client.scan_iter("*"):
        assert any(name.startswith(pattern) or name == pattern for pattern in patterns), name
