"""Messages get a sender, or are told why not yet."""

from __future__ import annotations

import asyncio

import pytest

from support.messages import (
    ANNA,
    BERT,
    DAY_MS,
    OTHER_PHONE,
    PHONE,
    accepted,
    ack,
    claim,
    linked,
    plan,
    record,
    release,
    set_status,
    settings,
    state,
    unlinked,
)
from support.waiting import wait_until
from wa_orchestrator.background import Services
from wa_orchestrator.clock import Clock, ManualClock
from wa_orchestrator.dispatcher.loop import Dispatcher
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store


def router(store: Store, clock: ManualClock) -> Router:
    return Router(store=store, settings=settings(), clock=clock)


def dispatcher(store: Store, clock: Clock, routing: Router) -> Dispatcher:
    planner = Planner(store=store, settings=settings(), clock=clock)
    return Dispatcher(store=store, planner=planner, settings=settings(), clock=clock, jobs_due=routing.jobs_due)


async def test_the_router_is_told_of_jobs_that_are_due_and_of_no_others(store: Store, clock: ManualClock) -> None:
    await linked(store, PHONE)
    await plan(store, clock, PHONE)
    routing = router(store, clock)
    serving = dispatcher(store, clock, routing)
    await accepted(store, schedule_at=clock.now_ms() + 60_000)
    await serving.run_once()
    assert not routing.jobs_due.is_set()
    clock.advance(seconds=60)
    await serving.run_once()
    assert routing.jobs_due.is_set()


async def test_a_job_does_not_wait_for_the_routers_own_round(
    store: Store, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wa_orchestrator.dispatcher.router._EVERY_S", 60.0)
    await linked(store, PHONE)
    await plan(store, clock, PHONE)
    routing, services = router(store, clock), Services()
    services.start("dispatcher", dispatcher(store, clock, routing))
    services.start("router", routing)
    try:
        for _ in range(3):  # its first round comes at once anyway
            message_id = await accepted(store)

            async def under_way(message_id: str = message_id) -> bool:
                return (await record(store, message_id)).get("lane") == PHONE

            await wait_until(under_way, timeout_s=5)
    finally:
        await services.stop()


async def test_the_phone_with_most_room_sends(store: Store, clock: ManualClock) -> None:
    await linked(store, PHONE)
    await linked(store, OTHER_PHONE)
    await plan(store, clock, PHONE, daily=5)
    await plan(store, clock, OTHER_PHONE, daily=50)
    message_id = await accepted(store)
    assert await router(store, clock).run_once() == 1
    assert (await record(store, message_id))["lane"] == OTHER_PHONE


async def test_the_session_that_last_talked_to_the_recipient_sends(store: Store, clock: ManualClock) -> None:
    session = await linked(store, PHONE)
    await linked(store, OTHER_PHONE)
    await plan(store, clock, PHONE, daily=5)
    await plan(store, clock, OTHER_PHONE, daily=50)
    first = await accepted(store, session_id=session)
    await release(store)
    assert await claim(store, session) == [first]
    await ack(store, first, session)
    message_id = await accepted(store)
    await router(store, clock).run_once()
    assert (await record(store, message_id))["lane"] == PHONE


async def test_messages_to_a_new_recipient_stay_with_one_phone(store: Store, clock: ManualClock) -> None:
    await linked(store, PHONE)
    await linked(store, OTHER_PHONE)
    await plan(store, clock, PHONE, daily=10)
    await plan(store, clock, OTHER_PHONE, daily=10)
    ids = [await accepted(store) for _ in range(4)]
    await router(store, clock).run_once()
    ids += [await accepted(store) for _ in range(4)]
    await router(store, clock).run_once()
    assert len({(await record(store, i))["lane"] for i in ids}) == 1


async def test_many_recipients_are_shared_between_the_phones(store: Store, clock: ManualClock) -> None:
    await linked(store, PHONE)
    await linked(store, OTHER_PHONE)
    await plan(store, clock, PHONE, daily=10)
    await plan(store, clock, OTHER_PHONE, daily=10)
    for n in range(10):
        await accepted(store, to=f"97252000000{n}")
    await router(store, clock).run_once()
    assert (await store.lanes.sizes(PHONE))[0] == 5
    assert (await store.lanes.sizes(OTHER_PHONE))[0] == 5


async def test_without_a_connected_session_it_waits_and_says_so(store: Store, clock: ManualClock) -> None:
    session = await linked(store)
    await set_status(store, session, Status.RECONNECTING)
    message_id = await accepted(store)
    assert await router(store, clock).run_once() == 0
    assert (await record(store, message_id))["waitingFor"] == "NO_SESSION_CONNECTED"
    await set_status(store, session, Status.CONNECTED)
    assert await router(store, clock).run_once() == 0  # not yet time to look again
    clock.advance(seconds=1)
    assert await router(store, clock).run_once() == 1
    assert "waitingFor" not in await record(store, message_id)


async def test_a_session_that_is_not_linked_yet_keeps_its_messages(store: Store, clock: ManualClock) -> None:
    session = await unlinked(store)
    message_id = await accepted(store, session_id=session)
    await router(store, clock).run_once()
    assert (await record(store, message_id))["waitingFor"] == "SESSION_NOT_LINKED"


async def test_a_planned_message_of_a_deleted_session_fails(store: Store, clock: ManualClock) -> None:
    session = await unlinked(store)
    message_id = await accepted(store, session_id=session, schedule_at=clock.now_ms() + DAY_MS)
    await store.sessions.delete(session, keep_s=60)
    clock.advance(seconds=86_401)
    await router(store, clock).run_once()
    found = await record(store, message_id)
    assert (found["state"], found["reason"]) == ("failed", "SESSION_DELETED")


async def test_a_long_list_that_nobody_can_send_ends_the_round_and_is_looked_at_less_often(
    store: Store, clock: ManualClock
) -> None:
    await asyncio.gather(*(accepted(store, to=f"97252{number:07}") for number in range(1200)))

    class Hurrying(ManualClock):
        """A second passes with every look at it."""

        def now_ms(self) -> int:
            self.advance(seconds=1)
            return super().now_ms()

    slow = Router(store=store, settings=settings(), clock=Hurrying(clock.now_ms()))
    assert await asyncio.wait_for(slow.run_once(), timeout=20) == 0
    clock.advance(seconds=0.5)
    assert await store.lanes.due_jobs(now_ms=clock.now_ms(), limit=10) == []
    await linked(store)
    clock.advance(seconds=60)
    assert await router(store, clock).run_once() == 1200


async def test_routing_twice_changes_nothing(store: Store, clock: ManualClock) -> None:
    await linked(store)
    message_id = await accepted(store)
    assert await store.lanes.route([{"id": message_id, "lane": PHONE}]) == 1
    assert await store.lanes.route([{"id": message_id, "lane": OTHER_PHONE}]) == 0
    assert (await record(store, message_id))["lane"] == PHONE


async def test_a_message_cancelled_meanwhile_is_not_routed(store: Store, clock: ManualClock) -> None:
    await linked(store)
    message_id, other = await accepted(store, to=ANNA), await accepted(store, to=BERT)
    await store.messages.cancel(message_id, reason="x")
    assert await store.lanes.route([{"id": i, "lane": PHONE} for i in (message_id, other)]) == 1
    assert (await state(store, message_id), await state(store, other)) == ("cancelled", "queued")
