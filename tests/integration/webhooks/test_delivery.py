"""Events reach their receivers: in order per session, again and again until they are taken, nobody in another's way."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from typing import Any

import pytest

from support.receiver import Receiver
from support.servers import StoreServer
from support.waiting import wait_until
from support.webhook_world import DAY_S, WebhookWorld, webhook_world
from wa_orchestrator.errors import LeaseLost
from wa_orchestrator.store.webhooks import Progress


async def test_a_receiver_that_fails_half_of_the_time_gets_everything_in_order(
    world: WebhookWorld, receiver: Receiver
) -> None:
    chance = random.Random(7)
    receiver.decide = lambda _event: 200 if chance.random() < 0.5 else chance.choice([500, 503, 404, 302])
    webhook = await world.hook(receiver)
    await world.start()
    numbers = sorted(await world.note_many(120, sessions=20))
    await world.settled(webhook, numbers[-1], timeout_s=60)
    assert sorted(receiver.first_numbers()) == numbers
    assert receiver.out_of_order() == []
    assert receiver.bad_signatures == 0
    found = await world.webhook(webhook)
    assert found.delivered >= 120
    assert found.failed == len(receiver.tries) - found.delivered


async def test_a_receiver_that_was_down_gets_what_it_missed(world: WebhookWorld, receiver: Receiver) -> None:
    webhook = await world.hook(receiver)
    await receiver.down()
    parts = await world.start()
    numbers = await world.note_many(3000, sessions=5)

    async def failing() -> bool:
        return (await world.webhook(webhook)).failures >= 8

    await wait_until(failing)
    (courier, _), *_ = parts.delivery._couriers.values()
    assert sum(len(lane.queue) for lane in courier._window.lanes.values()) <= 1000, "memory is bounded"
    assert (await world.webhook(webhook)).waiting == 0, "nothing is copied for a receiver that is away"
    assert (await world.webhook(webhook)).cursor < min(numbers)
    await receiver.up()
    await world.settled(webhook, max(numbers), timeout_s=60)
    assert sorted(receiver.first_numbers()) == sorted(numbers)
    assert receiver.out_of_order() == []


async def test_a_refused_event_holds_up_its_own_session_only(world: WebhookWorld, receiver: Receiver) -> None:
    good = {"poison": False}
    receiver.decide = lambda event: 200 if good["poison"] or event["sessionId"] != "worker_1" else 500
    webhook = await world.hook(receiver)
    await world.start()
    numbers = sorted(await world.note_many(600, sessions=3))

    async def others_are_through() -> bool:
        found = await world.webhook(webhook)
        return found.cursor >= numbers[-1] and found.waiting == 200

    await wait_until(others_are_through, timeout_s=15)
    assert set(await world.store.webhooks.parked(webhook)) == {"worker_1"}
    assert {e["sessionId"] for e in receiver.events} == {"worker_0", "worker_2"}
    good["poison"] = True
    more = await world.note_many(30, sessions=3)
    world.clock.jump(seconds=600)
    await world.settled(webhook, max(more), timeout_s=15)
    assert sorted(receiver.first_numbers()) == numbers + sorted(more)
    assert receiver.out_of_order() == []
    assert await world.store.webhooks.parked(webhook) == {}


async def test_what_waits_aside_survives_a_kill(world: WebhookWorld, receiver: Receiver) -> None:
    good = {"poison": False}
    receiver.decide = lambda event: 200 if good["poison"] or event["sessionId"] != "worker_1" else 500
    webhook = await world.hook(receiver)
    await world.start()
    numbers = sorted(await world.note_many(40, sessions=2))

    async def parked() -> bool:
        return (await world.webhook(webhook)).waiting == 20

    await wait_until(parked, timeout_s=15)
    await world.kill()
    good["poison"] = True
    world.clock.jump(seconds=600)
    await world.start()
    await world.settled(webhook, numbers[-1])
    assert sorted(receiver.first_numbers()) == numbers
    assert receiver.out_of_order() == []


@pytest.mark.parametrize("seed", range(2))
async def test_killed_at_any_moment_nothing_is_lost_or_reordered(
    world: WebhookWorld, receiver: Receiver, seed: int
) -> None:
    chance = random.Random(seed)
    receiver.decide = lambda _event: 200 if chance.random() < 0.8 else 500
    webhook = await world.hook(receiver)
    await world.start()
    numbers: list[int] = []
    for _ in range(5):
        numbers += await world.note_many(40, sessions=6)
        await asyncio.sleep(chance.uniform(0.0, 0.15))
        await world.kill()
        await world.start(owner=chance.choice(["one", "two"]))
    await world.settled(webhook, max(numbers), timeout_s=60)
    assert sorted(receiver.first_numbers()) == sorted(numbers)
    assert receiver.out_of_order() == []


async def test_a_stop_in_good_order_repeats_nothing(world: WebhookWorld, receiver: Receiver) -> None:
    webhook = await world.hook(receiver)
    numbers: list[int] = []
    for _ in range(4):
        await world.start()
        numbers += await world.note_many(100, sessions=4)
        await wait_until(lambda: len(receiver.events) > 20)
        await world.stop()
    await world.start()
    await world.settled(webhook, max(numbers))
    assert sorted(receiver.numbers()) == sorted(numbers)


async def test_a_slow_receiver_delays_no_other(valkey: StoreServer, receiver: Receiver, another: Receiver) -> None:
    receiver.hold = asyncio.Event()
    async with webhook_world(valkey.url, WEBHOOK_TIMEOUT_MS="60000") as world:
        await world.hook(receiver)
        quick = await world.hook(another)
        await world.start()
        numbers = await world.note_many(500, sessions=10)
        await world.settled(quick, max(numbers))
        assert len(another.events) == 500
        assert receiver.events == []
        assert receiver.under_way == world.settings.webhook_concurrency, "no more than this at a time"
        receiver.hold.set()


async def test_after_three_days_an_event_is_a_dead_letter_and_can_be_driven_again(
    world: WebhookWorld, receiver: Receiver
) -> None:
    webhook = await world.hook(receiver)
    await receiver.down()
    await world.start()
    old = sorted(await world.note_many(20, sessions=4))

    async def failing() -> bool:
        return (await world.webhook(webhook)).failures >= 8

    await wait_until(failing)
    world.clock.jump(seconds=2 * DAY_S)
    young = await world.note(session="worker_1")
    world.clock.jump(seconds=DAY_S + 600)

    async def dead() -> bool:
        return (await world.webhook(webhook)).dead_now == 20

    await wait_until(dead)
    await receiver.up()
    world.clock.jump(seconds=600)
    await world.settled(webhook, young)
    assert receiver.numbers() == [young], "a day old: still tried"
    letters = await world.store.webhooks.dead(webhook, before=None, limit=100)
    assert [letter.entry().number for letter in letters] == list(reversed(old))
    assert {letter.reason for letter in letters} == {"no connection"}

    parts = world._lives[-1][2]
    assert await parts.webhooks.redrive(webhook, [old[0]], drop=True) == (1, 19)
    assert await parts.webhooks.redrive(webhook, None) == (19, 0)
    await wait_until(lambda: len(receiver.events) == 20)
    assert set(receiver.numbers()) == {young, *old[1:]}
    by_session: dict[str, list[int]] = {}
    for event in receiver.events[1:]:
        by_session.setdefault(event["sessionId"], []).append(event["number"])
    assert all(numbers == sorted(numbers) for numbers in by_session.values())
    await world.settled(webhook, young)
    kinds = [entry.type for entry in await world.store.journal.after(0, limit=1000)]
    assert "webhook.dead" in kinds


async def test_an_event_that_is_refused_for_three_days_lets_the_next_one_through(
    world: WebhookWorld, receiver: Receiver
) -> None:
    poison = await world.note()
    receiver.decide = lambda event: 500 if event["number"] == poison else 200
    webhook = await world.hook(receiver, after=0)
    await world.start()
    await wait_until(lambda: len(receiver.tries) >= 2)
    other = await world.note(session="worker_2")
    behind = await world.note()
    await wait_until(lambda: other in receiver.numbers())
    assert behind not in receiver.numbers(), "order within the session"
    world.clock.jump(seconds=3 * DAY_S + 600)
    await wait_until(lambda: behind in receiver.numbers(), timeout_s=10)

    async def dead() -> bool:
        return (await world.webhook(webhook)).dead_now == 1

    await wait_until(dead)


async def test_too_many_waiting_of_one_session_become_dead_letters_not_a_full_store(
    world: WebhookWorld, receiver: Receiver
) -> None:
    world.settings.__dict__["webhook_dead_letters"] = 100
    receiver.decide = lambda event: 500 if event["sessionId"] == "worker_1" else 200
    world.store.webhooks._most_waiting = 100
    webhook = await world.hook(receiver)
    await world.start()
    numbers = await world.note_many(600, sessions=2)

    async def through() -> bool:
        found = await world.webhook(webhook)
        return found.cursor >= max(numbers)

    await wait_until(through, timeout_s=15)
    found = await world.webhook(webhook)
    assert found.waiting == 100
    assert found.dead_now == 100
    assert found.dead_dropped == 100, "what had no room is counted"


async def test_a_receiver_that_is_gone_switches_its_webhook_off(world: WebhookWorld, receiver: Receiver) -> None:
    receiver.decide = lambda _event: 410
    webhook = await world.hook(receiver)
    parts = await world.start()
    first = await world.note()

    async def off() -> bool:
        return not (await world.webhook(webhook)).enabled

    await wait_until(off)
    assert (await world.webhook(webhook)).disabled_reason == "GONE"
    second = await world.note()
    assert len(receiver.tries) == 1
    receiver.decide = lambda _event: 200
    await parts.webhooks.change(webhook, {"enabled": True})
    await wait_until(lambda: second in receiver.numbers())
    assert receiver.first_numbers()[0] == first, "it goes on where it stopped"
    kinds = [entry.type for entry in await world.store.journal.after(0, limit=100)]
    assert "webhook.disabled" in kinds


async def test_only_the_leader_moves_the_cursor(world: WebhookWorld, receiver: Receiver) -> None:
    webhook = await world.hook(receiver)
    await world.start("leader")
    await world.start("pretender", leads=False)
    number = await world.note()
    await world.settled(webhook, number)
    with pytest.raises(LeaseLost):
        await world.store.webhooks.settle(webhook, Progress(), owner="pretender", cursor=999)
    assert (await world.webhook(webhook)).cursor == number


async def test_filters_by_type_session_and_metadata(world: WebhookWorld, receiver: Receiver, another: Receiver) -> None:
    await world.store.connection.call("HSET", "session:worker_1", "id", "worker_1", "metadata", '{"customer":"a"}')
    await world.store.connection.call("HSET", "session:worker_2", "id", "worker_2", "metadata", '{"customer":"b"}')
    # a deleted session's events still belong to its customer
    await world.store.connection.call("SET", "session:deleted:metadata:worker_3", '{"customer":"a"}')
    await world.hook(receiver, types=("message.*", "CONNECTED"), sessions=("worker_1", "worker_2"))
    await world.hook(another, metadata={"customer": "a"}, types=())
    await world.start()
    for session in ("worker_1", "worker_2", "worker_3", ""):
        for kind in ("message.sent", "CONNECTED", "MESSAGE_RECEIVED"):
            await world.note(kind, session)
    await wait_until(lambda: len(receiver.events) == 4 and len(another.events) == 6)
    assert {(e["type"], e["sessionId"]) for e in receiver.events} == {
        (kind, session) for kind in ("message.sent", "CONNECTED") for session in ("worker_1", "worker_2")
    }
    assert {e["sessionId"] for e in another.events} == {"worker_1", "worker_3"}


async def test_events_that_were_cut_off_are_told_as_a_gap_before_what_follows(
    world: WebhookWorld, receiver: Receiver
) -> None:
    await world.note()
    webhook = await world.hook(receiver, enabled=False)
    await world.note_many(1000, sessions=3)
    # exactly, where the server would cut whole nodes
    await world.store.connection.call("XTRIM", "events:journal", "MINID", "500-0")
    parts = await world.start()
    receiver.decide = lambda _event: 500 if len(receiver.tries) < 3 else 200
    await parts.webhooks.change(webhook, {"enabled": True})
    last = await world.store.journal.last_number()
    await world.settled(webhook, last)
    first = receiver.events[0]
    begins = (await world.store.journal.after(0, limit=1))[0].number
    assert first["type"] == "journal.gap"
    assert first["data"] == {"from": 2, "to": begins - 1}
    assert first["number"] == begins - 1
    assert sorted(receiver.first_numbers()[1:]) == list(range(begins, last + 1))


async def test_a_new_webhook_begins_with_now_or_after_a_number(
    world: WebhookWorld, receiver: Receiver, another: Receiver
) -> None:
    first = await world.note()
    second = await world.note()
    await world.start()
    await world.hook(receiver, types=("MESSAGE_RECEIVED",))
    await world.hook(another, types=("MESSAGE_RECEIVED",), after=first)
    third = await world.note()
    await wait_until(lambda: third in receiver.numbers() and third in another.numbers())
    assert receiver.numbers() == [third]
    assert another.numbers() == [second, third]


async def test_a_changed_address_is_used_and_a_deleted_webhook_is_silent(
    world: WebhookWorld, receiver: Receiver, another: Receiver
) -> None:
    webhook = await world.hook(receiver)
    parts = await world.start()
    first = await world.note()
    await wait_until(lambda: receiver.numbers() == [first])
    another.secret = receiver.secret
    await parts.webhooks.change(webhook, {"url": another.url})
    await wait_until(lambda: not [c for c, _ in parts.delivery._couriers.values() if c.webhook.url == receiver.url])
    second = await world.note()
    await wait_until(lambda: another.numbers() == [second])
    await parts.webhooks.delete(webhook)
    await wait_until(lambda: not parts.delivery._couriers)
    await world.note()
    assert not await world.store.connection.call("KEYS", f"webhook:*{webhook}*")


async def test_numbers_that_begin_anew_are_told(world: WebhookWorld, receiver: Receiver) -> None:
    await world.note_many(50)
    await world.hook(receiver)
    await world.start()
    await world.note()
    await wait_until(lambda: len(receiver.events) == 1)
    await world.store.connection.call("DEL", "events:journal", "events:number")
    await wait_until(lambda: any(e["type"] == "journal.gap" for e in receiver.events), timeout_s=15)
    await world.note()
    await wait_until(lambda: receiver.events[-1]["number"] == 1, timeout_s=15)
    assert receiver.events[-2]["data"]["restarted"] is True


async def test_a_webhook_without_filters_sees_every_number(world: WebhookWorld, receiver: Receiver) -> None:
    webhook = await world.hook(receiver, types=())
    parts = await world.start()
    await world.note_many(20, sessions=3)
    await parts.webhooks.change(webhook, {"label": "x"})
    await world.note("webhook.failing", "", webhookId=webhook)
    last = await world.store.journal.last_number()
    await world.settled(webhook, last)
    assert sorted(receiver.first_numbers()) == list(range(1, last + 1)), "its own making included"


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [({"Location": "http://127.0.0.1/elsewhere"}, 307, "redirects"), ({}, 404, "answered 404")],
)
async def test_only_2xx_counts(
    world: WebhookWorld, receiver: Receiver, headers: dict[str, Any], status: int, error: str
) -> None:
    receiver.decide, receiver.answer_headers = (lambda _event: status), headers
    webhook = await world.hook(receiver)
    await world.start()
    number = await world.note()

    async def told() -> bool:
        return error in (await world.webhook(webhook)).last_error

    await wait_until(told)
    assert (await world.webhook(webhook)).cursor < number


async def test_an_endless_answer_is_not_read_and_a_silent_one_not_waited_for(
    world: WebhookWorld, receiver: Receiver
) -> None:
    receiver.answer_body = b"x" * (4 << 20)
    webhook = await world.hook(receiver)
    await world.start()
    numbers = await world.note_many(5)
    await world.settled(webhook, max(numbers))
    receiver.hold = asyncio.Event()
    await world.note()

    async def told() -> bool:
        return (await world.webhook(webhook)).last_error == "no answer in time"

    await wait_until(told, timeout_s=10)
    receiver.hold.set()


async def test_a_silent_name_server_holds_up_no_other_receiver(
    world: WebhookWorld, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, silence = socket.getaddrinfo, threading.Event()

    def silent(host: Any, *more: Any, **named: Any) -> Any:
        if str(host).startswith("silent"):
            silence.wait(30)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", silent)
    try:
        for number in range(12):
            await world.hook(Receiver(), url=f"http://silent{number}.example/")
        # by name, so that it has to be looked up too
        named = await world.hook(receiver, url=receiver.url.replace("127.0.0.1", "localhost"))
        await world.start()
        number = await world.note()
        await world.settled(named, number, timeout_s=5)
        assert receiver.numbers() == [number]
    finally:
        silence.set()
