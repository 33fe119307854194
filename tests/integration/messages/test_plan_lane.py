"""A lane's plan: what a day has used stays used, however often it is planned."""

from __future__ import annotations

import asyncio

from support.messages import (
    ANNA,
    BERT,
    DAY_MS,
    PHONE,
    UNPACED,
    accepted,
    ack,
    claim,
    dispatcher,
    lane_field,
    lane_plan,
    linked,
    plan,
    release,
    settings,
    state,
)
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.store import Store


async def sent(store: Store, session: str, *recipients: str) -> None:
    for to in recipients:
        message_id = await accepted(store, session_id=session, to=to, defer=True)
        assert await release(store) == 1
        assert await claim(store, session) == [message_id]
        await ack(store, message_id, session)


async def test_the_same_day_keeps_its_count(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=3)
    await sent(store, session, ANNA, BERT)
    for _ in range(3):
        await plan(store, clock, daily=3)
    assert await lane_field(store, "dayCount") == "2"


async def test_a_new_day_starts_at_zero(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=3)
    await sent(store, session, ANNA)
    clock.advance(seconds=86_400)
    await plan(store, clock, daily=3, day_key="tomorrow", day_starts_at=clock.now_ms())
    assert await lane_field(store, "dayCount") == "0"


async def test_what_is_under_way_at_midnight_counts_for_the_new_day_too(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=3)
    await accepted(store, session_id=session)
    await release(store)
    clock.advance(seconds=86_400)
    await plan(store, clock, daily=3, day_key="tomorrow", day_starts_at=clock.now_ms())
    assert await lane_field(store, "dayCount") == "1"


async def test_what_was_sent_after_midnight_before_the_plan_counts_for_the_new_day(
    store: Store, clock: ManualClock
) -> None:
    session = await linked(store)
    await plan(store, clock, daily=3)
    message_id = await accepted(store, session_id=session)
    await release(store)
    await claim(store, session)
    clock.advance(seconds=86_400)
    await ack(store, message_id, session)
    assert (await store.lanes.release_due(lanes=10)).to_plan == [PHONE]
    await plan(store, clock, daily=3, day_key="tomorrow", day_starts_at=clock.now_ms())
    assert await lane_field(store, "dayCount") == "1"


async def test_another_time_zone_does_not_give_a_second_day(store: Store, clock: ManualClock) -> None:
    """Forth and back between zones whose dates differ: the count must not begin anew."""
    session = await linked(store)
    planner = Planner(store=store, settings=settings(), clock=clock)
    served = dispatcher(store, clock)

    async def zone(name: str) -> None:
        await store.lanes.set_override(session, {**UNPACED, "daily": 2, "timezone": name})
        await store.lanes.replan(PHONE)

    clock.advance(seconds=(1_780_347_600_000 - clock.now_ms()) / 1000)  # 2026-06-01 21:00 UTC: 2 June in Jerusalem
    await zone("America/New_York")
    await served.run_once()
    await sent(store, session, ANNA, BERT)
    for name in ("Asia/Jerusalem", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Jerusalem"):
        await zone(name)
        await accepted(store, session_id=session, defer=True)
        assert await served.run_once() == 0, name
    assert (await planner.effective(PHONE))[0].limits.daily == 2


async def test_a_zone_whose_day_began_earlier_counts_the_day_before(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=2)
    await sent(store, session, ANNA, BERT)
    clock.advance(seconds=86_400)
    midnight = clock.now_ms()
    await plan(store, clock, daily=2, day_key="tomorrow", day_starts_at=midnight)
    await plan(store, clock, daily=2, day_key="still today", day_starts_at=midnight - DAY_MS // 2)
    assert await lane_field(store, "dayCount") == "2"


async def test_a_clock_set_back_over_midnight_does_not_give_the_day_again(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    start = clock.now_ms()
    await plan(store, clock, daily=1)
    await sent(store, session, ANNA)
    clock.advance(seconds=86_400)
    await plan(store, clock, daily=1, day_key="tomorrow", day_starts_at=clock.now_ms())
    clock.advance(seconds=-3600)
    await plan(store, clock, daily=1, day_starts_at=start - 1000, day_ends_at=start + DAY_MS)
    await accepted(store, session_id=session, defer=True)
    assert await release(store) == 0


async def test_limits_changed_while_a_plan_is_made_are_not_forgotten(store: Store, clock: ManualClock) -> None:
    await linked(store)
    version = await store.lanes.plan_version(PHONE)
    await store.lanes.replan(PHONE)
    assert not await store.lanes.write_plan(PHONE, lane_plan(clock.now_ms()), version=version)
    assert (await store.lanes.release_due(lanes=10)).to_plan == [PHONE]


async def test_stricter_limits_call_back_what_no_worker_has(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, daily=50)
    ids = [await accepted(store, session_id=session, to=f"97252000000{n}") for n in range(6)]
    assert await release(store) == 6
    held = await claim(store, session, most=1)
    await plan(store, clock, daily=50, min_delay_ms=1000, max_delay_ms=1000)
    assert await claim(store, session) == []
    assert [await state(store, i) for i in ids if i not in held] == ["queued"] * 5
    assert await lane_field(store, "dayCount") == "1"


async def test_shorter_delays_count_at_once_but_a_burst_pause_stays(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await plan(store, clock, min_delay_ms=60_000, max_delay_ms=60_000)
    await sent(store, session, ANNA)
    await plan(store, clock)
    await sent(store, session, BERT)
    await plan(store, clock, min_delay_ms=1000, max_delay_ms=1000, burst_count=1, burst_pause_ms=30_000)
    clock.advance(seconds=1)
    await sent(store, session, ANNA)
    await plan(store, clock)
    await accepted(store, session_id=session)
    assert await release(store) == 0
    clock.advance(seconds=30)
    assert await release(store) == 1


async def test_two_dispatchers_plan_at_the_same_time_without_harm(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await store.lanes.set_override(session, {**UNPACED, "daily": 3})
    for n in range(9):
        await accepted(store, session_id=session, to=f"97252000000{n}")
    moved = await asyncio.gather(*(dispatcher(store, clock).run_once() for _ in range(4)))
    assert sum(moved) == 3
