"""One leader at a time; a dead one is replaced, a cut-off one steps down."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.servers import running_server
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.sessions import leadership
from wa_orchestrator.sessions.leadership import LEASE_MS, Leadership
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.leases import Held


class Recorder:
    def __init__(self, store: Store, owner: str) -> None:
        self.events: list[str] = []
        self.now = 0.0
        self.leadership = Leadership(
            store=store, owner=owner, on_gain=self._gain, on_loss=self._loss, monotonic=lambda: self.now
        )

    async def _gain(self) -> None:
        self.events.append("gain")

    async def _loss(self) -> None:
        self.events.append("loss")


async def test_the_first_leads_and_the_second_waits(store: Store) -> None:
    first, second = Recorder(store, "a"), Recorder(store, "b")
    assert await first.leadership.try_once()
    assert not await second.leadership.try_once()
    assert await first.leadership.try_once()
    assert (first.events, second.events) == (["gain"], [])


async def test_each_sees_that_the_other_lives(store: Store) -> None:
    first, second = Recorder(store, "a"), Recorder(store, "b")
    await first.leadership.try_once()
    await second.leadership.try_once()
    await first.leadership.try_once()
    assert (first.leadership.others, second.leadership.others) == (1, 1)


async def test_a_dead_leaders_lease_is_taken_over(store: Store) -> None:
    first, second = Recorder(store, "a"), Recorder(store, "b")
    await first.leadership.try_once()
    await store.connection.call("PEXPIRE", keys.LEADER(), 1)
    await asyncio.sleep(0.02)
    assert await second.leadership.try_once()
    assert not await first.leadership.try_once()
    assert first.events == ["gain", "loss"]


async def test_a_restart_on_the_same_data_folder_leads_at_once(store: Store) -> None:
    assert await Recorder(store, "a").leadership.try_once()
    assert await Recorder(store, "a").leadership.try_once()


async def test_giving_it_back_lets_another_lead_at_once(store: Store) -> None:
    first, second = Recorder(store, "a"), Recorder(store, "b")
    await first.leadership.try_once()
    await first.leadership.close()
    assert await second.leadership.try_once()
    assert first.events == ["gain", "loss"]
    assert second.leadership.others == 0


async def test_a_leader_without_a_store_steps_down_before_its_lease_ends(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(store, "a")
    await recorder.leadership.try_once()
    away = Store("redis://127.0.0.1:1/0", clock)
    monkeypatch.setattr(recorder.leadership, "_store", away)
    assert await recorder.leadership.try_once(), "a short absence changes nothing"
    recorder.now += LEASE_MS / 1000 - 1
    assert not await recorder.leadership.try_once()
    assert recorder.events == ["gain", "loss"]
    await away.close()


async def test_a_store_that_hangs_does_not_hold_a_leader_beyond_its_lease(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leadership, "_ANSWER_S", 0.2)
    with running_server("valkey", tmp_path / "store") as server:
        store = Store(server.url, clock)
        recorder = Recorder(store, "a")
        await recorder.leadership.try_once()
        with server.hanging():
            recorder.now += 6.0
            assert not await asyncio.wait_for(recorder.leadership.try_once(), 3)
        assert recorder.events == ["gain", "loss"]
        assert await recorder.leadership.try_once()
        await store.close()


async def test_a_lease_counts_from_the_question_not_from_the_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder(store, "a")
    hold = store.leases.hold

    async def slowly(owner: str, *, ttl_ms: int) -> Held:
        answer = await hold(owner, ttl_ms=ttl_ms)
        recorder.now += 4.0
        return answer

    monkeypatch.setattr(store.leases, "hold", slowly)
    await recorder.leadership.try_once()
    monkeypatch.setattr(recorder.leadership, "_store", Store("redis://127.0.0.1:1/0", ManualClock()))
    recorder.now += 2.0
    assert not await recorder.leadership.try_once()


async def test_a_leader_stays_while_the_store_has_no_memory(tmp_path: Path, clock: ManualClock) -> None:
    with running_server("valkey", tmp_path / "store") as server:
        store = Store(server.url, clock)
        recorder = Recorder(store, "a")
        await recorder.leadership.try_once()
        await store.connection.call("CONFIG", "SET", "maxmemory", "1")
        recorder.now += 60
        assert await recorder.leadership.try_once()
        assert recorder.events == ["gain"]
        await store.connection.call("CONFIG", "SET", "maxmemory", "0")
        await store.close()
