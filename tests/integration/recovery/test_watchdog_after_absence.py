"""After an hour without a store, or with a clock that jumped, the watchdog does not restart everybody."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from support.messages import linked, settings
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.errors import StoreFull
from wa_orchestrator.store import Store
from wa_orchestrator.store.sessions import EventEffect, EventNumber
from wa_orchestrator.watchdog.loop import Watchdog

TIMEOUT_S, ROUND_S = 180, 60


class Watched:
    """A watchdog over one connected session; its worker pings or is silent as the test wants."""

    def __init__(self, store: Store, clock: ManualClock, session_id: str) -> None:
        self.store, self.clock, self.session_id = store, clock, session_id
        self.passed_s = 0.0
        self.restarted: list[str] = []
        parts: Any = SimpleNamespace(list_running=self._running, ensure=self._ensure)
        self.watchdog = Watchdog(store=store, runner=parts, lifecycle=parts, settings=settings(), clock=clock,
                                 monotonic=lambda: self.passed_s)  # fmt: skip

    async def _running(self) -> list[Any]:
        return [SimpleNamespace(session_id=self.session_id)]

    async def _ensure(self, session_id: str) -> None:
        self.restarted.append(session_id)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)
        self.passed_s += seconds

    async def ping(self) -> None:
        effect = EventEffect(fields={"lastPing": self.clock.now_ms()})
        number = EventNumber(at=self.clock.now_ms())
        await self.store.sessions.apply_event(self.session_id, number, kind="PING", effect=effect, data={})

    async def rounds(self, count: int, *, pings: bool) -> list[str]:
        for _ in range(count):
            self.pass_time(ROUND_S)
            if pings:
                await self.ping()
            await self.watchdog.run_once()
        return self.restarted


@pytest.fixture
async def watched(store: Store, clock: ManualClock) -> Watched:
    return Watched(store, clock, await linked(store))


async def test_a_silent_worker_is_restarted(watched: Watched) -> None:
    assert await watched.rounds(5, pings=True) == []
    assert await watched.rounds(4, pings=False) == [watched.session_id]


async def test_after_an_hour_without_rounds_a_worker_gets_a_full_time_out(watched: Watched) -> None:
    await watched.rounds(3, pings=True)
    watched.pass_time(3600)
    assert await watched.rounds(2, pings=False) == []
    assert await watched.rounds(3, pings=False) == [watched.session_id]


async def test_a_clock_that_jumps_ahead_restarts_nobody(watched: Watched) -> None:
    await watched.rounds(3, pings=True)
    watched.clock.advance(seconds=86_400)
    await watched.watchdog.run_once()
    assert await watched.rounds(5, pings=True) == []


async def test_while_the_store_takes_nothing_silence_means_nothing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    await watched.rounds(3, pings=True)

    async def refused(*_: object, **__: object) -> bool:
        raise StoreFull

    with monkeypatch.context() as full:
        full.setattr(watched.store.sessions, "mark_unhealthy", refused)
        await watched.rounds(5, pings=False)
    assert await watched.rounds(1, pings=False) == [], "there was no time for a ping yet"
    assert await watched.rounds(5, pings=True) == []
