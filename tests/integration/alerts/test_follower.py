"""From the journal to the queue: nothing is lost and nothing doubled, whoever reads and however it ends."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import redis

from support.alerts import CHAT, TOKEN
from support.control_plane import quick_settings
from support.registry import FAR_AWAY, add_proxies, address, connect, reserve
from support.servers import StoreServer
from wa_orchestrator.alerts.follower import AlertFollower
from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Status
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store, StoreRules, keys
from wa_orchestrator.store.sessions import EventEffect, EventNumber

_CAP = 60


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return quick_settings(tmp_path, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_CHAT_ID=CHAT)


@pytest.fixture
async def store(any_server: StoreServer, clock: ManualClock) -> AsyncIterator[Store]:
    """Empty, with proxies that take many; on Valkey and on Redis."""
    with redis.Redis(port=any_server.port) as client:
        client.flushall()
    opened = Store(any_server.url, clock, StoreRules(slots_per_proxy=_CAP))
    yield opened
    await opened.close()


@pytest.fixture
async def follower(store: Store, settings: Settings, clock: ManualClock) -> AlertFollower:
    made = AlertFollower(store=store, settings=settings, clock=clock)
    await made.run_once()
    return made


async def waiting(store: Store) -> list[Notice]:
    rows: list[str] = await store.connection.call("LRANGE", keys.ALERTS_OUTBOX(), 0, -1)
    return [msgspec.json.decode(row, type=Notice) for row in rows]


def kinds(notices: list[Notice]) -> list[tuple[str, str, int]]:
    return [(n.state, n.kind, n.count) for n in notices]


async def status(store: Store, session_id: str, to: Status, reason: str = "") -> None:
    effect = EventEffect(status=to, reason=reason)
    await store.sessions.apply_event(session_id, EventNumber(at=FAR_AWAY), kind="DISCONNECTED", effect=effect, data={})


async def test_fifty_sessions_of_one_dead_proxy_are_one_message_and_their_return_one(
    store: Store, follower: AlertFollower, clock: ManualClock
) -> None:
    home, _ = await add_proxies(store, 2)
    await store.proxies.mark(address(1).proxy_id, ProxyStatus.BAD, error="x", kind="refused")
    phones = [f"97250{n:07}" for n in range(50)]
    sessions = [(await reserve(store, phone=phone, label="Shop" if n == 0 else "")).session_id
                for n, phone in enumerate(phones)]  # fmt: skip
    for session_id, phone in zip(sessions, phones, strict=True):
        await connect(store, session_id, phone)
    await follower.run_once()
    clock.advance(seconds=700)
    await follower.run_once()
    await store.connection.call("DEL", keys.ALERTS_OUTBOX())
    await store.proxies.mark(address(1).proxy_id, ProxyStatus.ACTIVE)
    clock.advance(seconds=700)
    await follower.run_once()
    await store.connection.call("DEL", keys.ALERTS_OUTBOX())

    _, hit = await store.proxies.mark(home, ProxyStatus.BAD, error="socks5h://user:pass@x", kind="refused")
    assert len(hit) == 50
    for session_id in hit:
        await store.sessions.move(session_id, reason="PROXY_FAILED", from_proxy=home)
        clock.advance(seconds=0.5)
        await follower.run_once()
    (lost,) = await waiting(store)
    assert (lost.kind, lost.count, lost.facts["moved"]) == ("proxy_bad", 51, 50)
    assert lost.names[f"proxy:{home}"] == "proxy0.example:1080"
    assert lost.names["session:worker_1"] == "Shop (worker_1)"

    for session_id, phone in zip(sessions, phones, strict=True):
        await connect(store, session_id, phone)
        clock.advance(seconds=0.5)
        await follower.run_once()
    clock.advance(seconds=6)
    await follower.run_once()
    assert kinds(await waiting(store))[1:] == [("resolved", "failover", 50)]
    noted = [e for e in await store.journal.after(0, limit=10_000) if e.type.startswith("alert.")]
    assert noted[-1].type == "alert.resolved"
    assert noted[-1].data["title"] == "✅ 50 sessions are connected again, after proxy proxy0.example:1080 failed"
    assert "pass" not in msgspec.json.encode([e.data for e in noted]).decode()


async def test_sessions_that_find_no_proxy_are_in_the_same_message(
    store: Store, follower: AlertFollower, clock: ManualClock
) -> None:
    (home,) = await add_proxies(store, 1)
    sessions = [(await reserve(store, phone=f"97250{n:07}")).session_id for n in range(3)]
    for n, session_id in enumerate(sessions):
        await connect(store, session_id, f"97250{n:07}")
    clock.advance(seconds=60)
    await follower.run_once()
    _, hit = await store.proxies.mark(home, ProxyStatus.BAD, error="x", kind="timeout")
    for _ in range(2):  # a second try to move them finds them waiting already
        for session_id in hit:
            await store.sessions.move(session_id, reason="PROXY_FAILED", from_proxy=home)
    clock.advance(seconds=1)
    (notice,) = await follower.run_once()
    assert (notice.kind, notice.severity, notice.facts["waiting"]) == ("proxy_bad", "critical", 3)


async def test_the_first_start_tells_nothing_of_the_past(store: Store, settings: Settings, clock: ManualClock) -> None:
    await add_proxies(store, 1)
    await store.proxies.mark(address(0).proxy_id, ProxyStatus.BAD, error="x", kind="refused")
    follower = AlertFollower(store=store, settings=settings, clock=clock)
    await follower.run_once()
    clock.advance(seconds=600)
    assert await follower.run_once() == []
    await store.proxies.mark(address(0).proxy_id, ProxyStatus.ACTIVE)
    clock.advance(seconds=600)
    assert await follower.run_once() == [], "nor the end of what was never alarmed"


async def test_a_store_that_is_emptied_under_a_running_server_is_followed_from_its_beginning(
    store: Store, follower: AlertFollower, clock: ManualClock
) -> None:
    await add_proxies(store, 3)
    await follower.run_once()
    await store.connection.call("FLUSHALL")
    await add_proxies(store, 1)
    await store.proxies.mark(address(0).proxy_id, ProxyStatus.BAD, error="x", kind="refused")
    for _ in range(3):
        clock.advance(seconds=10)
        await follower.run_once()
    assert kinds(await waiting(store)) == [("raised", "proxy_bad", 1)]


async def test_without_telegram_alerts_are_noted_but_do_not_queue_up(
    store: Store, tmp_path: Path, clock: ManualClock
) -> None:
    follower = AlertFollower(store=store, settings=quick_settings(tmp_path), clock=clock)
    await follower.run_once()
    await add_proxies(store, 1)
    await store.proxies.mark(address(0).proxy_id, ProxyStatus.BAD, error="x", kind="refused")
    clock.advance(seconds=10)
    assert len(await follower.run_once()) == 1
    assert await waiting(store) == []
    assert len(await store.alerts.recent(limit=10)) == 1


async def test_muted_kinds_and_small_matters_are_not_sent(store: Store, tmp_path: Path, clock: ManualClock) -> None:
    settings = quick_settings(tmp_path, TELEGRAM_BOT_TOKEN=TOKEN, TELEGRAM_CHAT_ID=CHAT,
                              ALERT_MUTED="proxy_bad, connected", ALERT_MIN_SEVERITY="warning")  # fmt: skip
    follower = AlertFollower(store=store, settings=settings, clock=clock)
    await follower.run_once()
    await _story(store, clock)
    clock.advance(seconds=100)
    told = await follower.run_once()
    sent = await waiting(store)
    assert {"connected", "proxy_bad"} <= {n.kind for n in told}
    assert "logged_out" in {n.kind for n in sent}
    assert {"connected", "proxy_bad"}.isdisjoint(n.kind for n in sent)


async def _story(store: Store, clock: ManualClock) -> None:
    """A little of everything, over some minutes."""
    home, _ = await add_proxies(store, 2)
    sessions = [(await reserve(store, phone=f"97250{n:07}")).session_id for n in range(6)]
    for n, session_id in enumerate(sessions):
        await connect(store, session_id, f"97250{n:07}")
        clock.advance(seconds=3)
    await status(store, sessions[0], Status.LOGGED_OUT, "LOGGED_OUT")
    for session_id in sessions[1:4]:
        await status(store, session_id, Status.RECONNECTING, "CONNECTION_LOST")
        clock.advance(seconds=20)
    _, hit = await store.proxies.mark(home, ProxyStatus.BAD, error="x", kind="refused")
    for session_id in hit:
        await store.sessions.move(session_id, reason="PROXY_FAILED", from_proxy=home)
        clock.advance(seconds=2)
    clock.advance(seconds=120)
    for n, session_id in enumerate(sessions[1:], start=1):
        await connect(store, session_id, f"97250{n:07}")
        clock.advance(seconds=7)
    await store.proxies.mark(home, ProxyStatus.ACTIVE)
    clock.advance(seconds=200)


class _Shaky:
    """Commits whose answer is lost: before or after they happened."""

    def __init__(self, store: Store, chance: random.Random) -> None:
        self._commit = store.alerts.commit
        self._chance = chance

    async def __call__(self, **given: Any) -> bool:
        roll = self._chance.random()
        if roll < 0.3:
            raise StoreUnavailable
        done = await self._commit(**given)
        if roll < 0.6:
            raise StoreUnavailable
        return done


@pytest.mark.parametrize("seed", range(6))
async def test_killed_and_taken_over_followers_lose_and_double_nothing(
    store: Store, settings: Settings, clock: ManualClock, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = AlertFollower(store=store, settings=settings, clock=clock)
    await first.run_once()
    await _story(store, clock)
    # undisturbed, on a copy of what is kept
    await AlertFollower(store=store, settings=settings, clock=clock).run_once()
    wanted = [(n.at, n.state, n.kind, n.subjects, n.facts) for n in await waiting(store)]
    assert len(wanted) > 4
    await store.connection.call(
        "DEL", keys.ALERTS_OUTBOX(), keys.ALERTS_DESK(), keys.ALERTS_RECENT(), keys.ALERTS_STATE()
    )
    await store.connection.call("HSET", keys.ALERTS_STATE(), "version", 0, "position", 0)

    chance = random.Random(seed)
    monkeypatch.setattr(store.alerts, "commit", _Shaky(store, chance))
    monkeypatch.setattr("wa_orchestrator.alerts.follower._BATCH", 7)
    followers = [AlertFollower(store=store, settings=settings, clock=clock) for _ in range(2)]
    quiet = 0
    while quiet < 6:
        who = chance.randrange(2)
        if chance.random() < 0.2:  # killed: its successor knows only what the store knows
            followers[who] = AlertFollower(store=store, settings=settings, clock=clock)
        try:
            quiet = 0 if await followers[who].run_once() else quiet + 1
        except StoreUnavailable:
            quiet = 0
    assert [(n.at, n.state, n.kind, n.subjects, n.facts) for n in await waiting(store)] == wanted


async def test_a_journal_that_was_cut_is_made_up_for(store: Store, settings: Settings, clock: ManualClock) -> None:
    follower = AlertFollower(store=store, settings=settings, clock=clock)
    await follower.run_once()
    await add_proxies(store, 1)
    session_id = (await reserve(store, phone="972500000001")).session_id
    await connect(store, session_id, "972500000001")
    await store.sessions.end(session_id, reason="CRASH_LOOP")
    clock.advance(seconds=10)
    assert "crash_loop" in {n.kind for n in await follower.run_once()}
    # while nobody read, it was started and connected, and the journal lost that
    await store.sessions.order(session_id, "start")
    await connect(store, session_id, "972500000001")
    await store.connection.call("XTRIM", keys.EVENTS_JOURNAL(), "MAXLEN", 0)
    await store.proxies.add(address(7))
    await follower.run_once()
    clock.advance(seconds=10)
    assert kinds(await follower.run_once()) == [("resolved", "crash_loop", 1)]


async def test_the_queue_is_bounded_and_says_what_it_left_out(
    store: Store, follower: AlertFollower, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wa_orchestrator.store.alerts._LONGEST_QUEUE", 40)
    await add_proxies(store, 60)
    for n in range(60):
        await store.proxies.mark(address(n).proxy_id, ProxyStatus.BAD, error="x", kind="refused")
        clock.advance(seconds=20)
        await follower.run_once()
    left = await waiting(store)
    assert len(left) == 40
    # the first thirty may be under way and stay; of the rest the oldest went
    assert [n.at for n in left] == sorted(n.at for n in left)
    channel = await store.alerts.channel()
    assert (channel.waiting, channel.left_out) == (40, 20)
