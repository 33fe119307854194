"""The clock is set far ahead and back again: nothing waits for that time to come, and no limit is exceeded today."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from support.messages import (
    ANNA,
    BERT,
    CARL,
    DAY_MS,
    UNPACED,
    accepted,
    ack,
    claim,
    dispatcher,
    lane_field,
    linked,
    nack,
    record,
    settings,
    state,
    unlinked,
)
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.dispatcher.housekeeping import MessageHousekeeping
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.sessions import EventEffect, EventNumber

DAY_S = 86_400
DAYS = pytest.mark.parametrize("days", [1, 40])


class World:
    """A dispatcher, a worker that sends at once, a clock that jumps, and the time that really passed."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store, self.clock = store, clock
        self.dispatcher = dispatcher(store, clock)
        self.router = Router(store=store, settings=settings(), clock=clock)
        self.housekeeping = MessageHousekeeping(store=store, settings=settings(), clock=clock)
        self.passed_s = 0.0
        self.sent_at: list[float] = []

    async def pass_time(self, seconds: float, *, step_s: float = 1.0, worker: str = "") -> None:
        until = self.passed_s + seconds
        while self.passed_s < until:
            await self.housekeeping.run_once()
            await self.router.run_once()
            await self.dispatcher.run_once()
            for message_id in await claim(self.store, worker) if worker else []:
                await ack(self.store, message_id, worker)
                self.sent_at.append(self.passed_s)
            self.clock.advance(seconds=step_s)
            self.passed_s += step_s

    def jump(self, *, days: float) -> None:
        self.clock.advance(seconds=days * DAY_S)


@pytest.fixture
def world(store: Store, clock: ManualClock) -> World:
    return World(store, clock)


async def limit(store: Store, **limits: Any) -> None:
    await store.lanes.set_override("global", {**UNPACED, **limits})


async def many(store: Store, session: str, count: int) -> list[str]:
    return [await accepted(store, session_id=session, to=f"9725200{n:05}", defer=True) for n in range(count)]


# lanes -----------------------------------------------------------------------------------------------------------
@DAYS
async def test_a_lane_goes_on_at_its_pace_after_the_clock_came_back(world: World, store: Store, days: int) -> None:
    session = await linked(store)
    await limit(store, minDelayMs=5000, maxDelayMs=5000, perMinute=8)
    await many(store, session, 40)
    await world.pass_time(31, worker=session)
    world.jump(days=days)
    await world.pass_time(30, worker=session)
    back_at = world.passed_s
    world.jump(days=-days)
    await world.pass_time(120, worker=session)
    after = [at for at in world.sent_at if at >= back_at]
    assert len(after) >= 14, f"it stalled: {world.sent_at}"
    assert all(later - earlier >= 5 for earlier, later in zip(world.sent_at, world.sent_at[1:], strict=False)
               if later >= back_at), world.sent_at  # fmt: skip
    for at in after:
        assert len([other for other in world.sent_at if at - 60 < other <= at]) <= 8, world.sent_at


@DAYS
async def test_what_was_sent_on_days_that_never_were_counts_for_today(world: World, store: Store, days: int) -> None:
    session = await linked(store)
    await limit(store, daily=10)
    await many(store, session, 4)
    await world.pass_time(3, worker=session)
    world.jump(days=days)
    await many(store, session, 5)
    await world.pass_time(3, worker=session)
    world.jump(days=-days)
    await many(store, session, 9)
    await world.pass_time(60, worker=session)
    assert len(world.sent_at) == 10
    await world.pass_time(DAY_S + 60, step_s=300, worker=session)
    assert len(world.sent_at) == 18, "the next day has its own budget"


@DAYS
async def test_sending_hours_are_those_of_today_again(
    world: World, store: Store, clock: ManualClock, days: int
) -> None:
    session = await linked(store)
    clock.advance(seconds=(12 * 3600_000 - clock.now_ms() % DAY_MS) / 1000 + DAY_S)  # noon
    await limit(store, hours="09:00-18:00")
    await world.pass_time(2, worker=session)
    world.jump(days=days + 0.5)  # midnight: closed there
    await many(store, session, 3)
    await world.pass_time(5, worker=session)
    assert world.sent_at == []
    world.jump(days=-days - 0.5)
    await world.pass_time(5, worker=session)
    assert len(world.sent_at) == 3


@DAYS
async def test_a_pause_after_a_burst_lasts_as_long_as_it_should(world: World, store: Store, days: int) -> None:
    session = await linked(store)
    await limit(store, minDelayMs=1000, maxDelayMs=1000, burst={"count": 2, "pauseMs": 30_000})
    await world.pass_time(5, worker=session)
    world.jump(days=days)
    await many(store, session, 4)
    await world.pass_time(6, worker=session)
    assert len(world.sent_at) == 2
    world.jump(days=-days)
    await world.pass_time(22, worker=session)
    assert len(world.sent_at) == 2, "the pause goes on"
    await world.pass_time(20, worker=session)
    assert len(world.sent_at) == 4


@DAYS
async def test_whatsapps_own_limit_lasts_as_long_as_it_should(world: World, store: Store, days: int) -> None:
    session = await linked(store)
    await limit(store)
    await world.pass_time(2)
    world.jump(days=days)
    await accepted(store, session_id=session)
    await world.pass_time(1)
    (message,) = await store.outbox.claim(session, most=1)
    await nack(store, message, session, kind="limited", retry_after_ms=7200_000)
    world.jump(days=-days)
    await world.pass_time(7000, step_s=100, worker=session)
    assert world.sent_at == [], "limited for two hours, by whatever clock"
    await world.pass_time(800, step_s=100, worker=session)
    assert len(world.sent_at) == 1


async def test_a_limit_from_before_the_jump_still_holds_after_it(world: World, store: Store) -> None:
    session = await linked(store)
    await limit(store)
    await accepted(store, session_id=session)
    await world.pass_time(1)
    (message,) = await store.outbox.claim(session, most=1)
    await nack(store, message, session, kind="limited", retry_after_ms=7200_000)
    until = await lane_field(store, "blockedUntil")
    world.jump(days=1)
    await world.housekeeping.run_once()
    world.jump(days=-1)
    await world.housekeeping.run_once()
    assert await lane_field(store, "blockedUntil") == until


# messages under way ----------------------------------------------------------------------------------------------
@DAYS
async def test_a_lease_given_while_it_was_ahead_ends_in_its_time(world: World, store: Store, days: int) -> None:
    session = await linked(store)
    await limit(store)
    await world.pass_time(1)
    world.jump(days=days)
    message_id = await accepted(store, session_id=session)
    await world.pass_time(10)
    assert await claim(store, session) == [message_id]  # and its worker dies
    await world.pass_time(10)
    world.jump(days=-days)
    await world.pass_time(130)
    assert await claim(store, session) == [message_id]
    assert "lease_ended" in (await record(store, message_id))["story"]


@DAYS
async def test_what_lay_in_the_outbox_can_be_claimed_and_a_retry_comes(world: World, store: Store, days: int) -> None:
    session = await linked(store)
    await limit(store)
    await world.pass_time(1)
    world.jump(days=days)
    retried, waiting = (
        await accepted(store, session_id=session, to=ANNA),
        await accepted(store, session_id=session, to=BERT),
    )
    await world.pass_time(2)
    first = next(m for m in await store.outbox.claim(session, most=1) if m["messageId"] in {retried, waiting})
    await nack(store, first, session, retry_after_ms=20_000)
    world.jump(days=-days)
    await world.pass_time(1)
    rest = ({retried, waiting} - {first["messageId"]}).pop()
    assert await claim(store, session) == [rest]
    await world.pass_time(40)
    assert await claim(store, session) == [first["messageId"]]


@DAYS
async def test_a_message_that_found_no_sender_is_looked_at_again(world: World, store: Store, days: int) -> None:
    await limit(store)
    await world.pass_time(1)
    world.jump(days=days)
    message_id = await accepted(store)
    await world.pass_time(3)
    assert await state(store, message_id) == "accepted"
    world.jump(days=-days)
    await linked(store)
    await world.pass_time(3)
    assert await state(store, message_id) == "outbox"


async def test_moments_that_the_caller_chose_stay(world: World, store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await limit(store)
    at = clock.now_ms() + 45 * DAY_MS
    planned = await accepted(store, session_id=session, to=ANNA, schedule_at=at)
    ending = await accepted(store, session_id=session, to=CARL, schedule_at=at, expires_at=at + 3600_000)
    await world.pass_time(1)
    world.jump(days=40)
    await world.pass_time(1)
    world.jump(days=-40)
    await world.pass_time(1)
    for message_id in (planned, ending):
        score = await store.connection.call("ZSCORE", keys.GATEWAY_JOBS(), message_id)
        assert int(float(score)) == at
    assert float(await store.connection.call("ZSCORE", keys.MESSAGES_EXPIRING(), ending)) == at + 3600_000


# sessions, proxies, codes, locks -----------------------------------------------------------------------------------
@DAYS
async def test_a_session_started_while_it_was_ahead_is_heard(
    world: World, store: Store, clock: ManualClock, days: int
) -> None:
    session = await linked(store)
    await world.pass_time(1)
    world.jump(days=days)
    await store.sessions.begin_run(session, reason="WORKER_DIED")
    await world.pass_time(1)
    world.jump(days=-days)
    await world.pass_time(20)
    effect = EventEffect(status=Status.DISCONNECTED)
    answer = await store.sessions.apply_event(
        session, EventNumber(at=clock.now_ms()), kind="DISCONNECTED", effect=effect, data={}
    )
    assert answer["outcome"] == "applied"
    found = await store.sessions.get(session)
    assert found
    assert found.started_at
    assert found.started_at <= clock.now_ms()


async def test_a_code_does_not_outlive_its_minute(world: World, store: Store, clock: ManualClock) -> None:
    session = await unlinked(store)
    await world.pass_time(1)
    world.jump(days=40)
    await world.pass_time(20)
    ends = clock.now_ms() + 40_000
    code = msgspec.json.encode({"qr": "2@invented", "expiresAt": ends}).decode()
    await store.connection.call("SET", keys.SESSION_QR(session), code)
    await world.pass_time(15)
    world.jump(days=-40)
    await world.housekeeping.run_once()
    kept = msgspec.json.decode(await store.connection.call("GET", keys.SESSION_QR(session)))
    assert 0 < kept["expiresAt"] - clock.now_ms() <= 40_000
    assert 0 < await store.connection.call("PTTL", keys.SESSION_QR(session)) <= 40_000


async def test_proxies_are_checked_and_unscanned_slots_given_back_in_time(
    world: World, store: Store, clock: ManualClock
) -> None:
    session = await unlinked(store)
    (proxy, *_) = await store.proxies.all()
    await world.pass_time(1)
    world.jump(days=40)
    await world.pass_time(1)
    call, soon = store.connection.call, clock.now_ms() + 600_000
    await call("ZADD", keys.PROXIES_CHECKS(), soon, proxy.proxy_id)
    await call("ZADD", keys.SESSIONS_UNSCANNED(), soon, session)
    world.jump(days=-40)
    await world.housekeeping.run_once()
    for key, entry in ((keys.PROXIES_CHECKS(), proxy.proxy_id), (keys.SESSIONS_UNSCANNED(), session)):
        due = float(await call("ZSCORE", key, entry))
        assert clock.now_ms() < due <= clock.now_ms() + 620_000


async def test_a_dead_holders_lock_and_lease_end_though_the_stores_own_clock_came_back(store: Store) -> None:
    call = store.connection.call
    await call("SET", keys.SESSION_LOCK("worker_1"), "dead", "PX", 40 * DAY_MS)
    await call("SET", keys.LEADER(), "dead", "PX", 40 * DAY_MS)
    assert not (await store.leases.hold("me", ttl_ms=9000)).held, "it is not taken from somebody who may live"
    assert await call("PTTL", keys.LEADER()) <= 9000
    with pytest.raises(errors.SessionBusy):
        async with store.locks.hold("worker_1", wait_s=0.2):
            pass
    assert await call("PTTL", keys.SESSION_LOCK("worker_1")) <= 10_000


# the clock itself --------------------------------------------------------------------------------------------------
async def test_small_steps_back_and_jumps_ahead_change_nothing(world: World, store: Store, clock: ManualClock) -> None:
    await linked(store)
    await world.pass_time(20)
    for seconds in (-25, 20, 40 * DAY_S, -20):
        clock.advance(seconds=seconds)
        assert await store.moments.clock_went_back_ms() == 0
    clock.advance(seconds=-DAY_S)
    assert await store.moments.clock_went_back_ms() > DAY_MS - 60_000


async def test_two_dispatchers_put_it_right_once(world: World, store: Store, clock: ManualClock) -> None:
    await linked(store)
    await world.pass_time(1)
    clock.advance(seconds=-DAY_S)
    back = await store.moments.clock_went_back_ms()
    assert await store.moments.set_back(back)
    assert not await store.moments.set_back(back)
    assert await store.moments.clock_went_back_ms() == 0
