"""Property: once the opt-out step is done, no suppressed number ever reaches an outbox, whatever else goes on.

Several dispatchers, gateways and workers work at the same time; words and hands put numbers on the list and off it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.messages import OTHER_PHONE, PHONE, accepted, linked, new_message, plan, state
from support.servers import StoreServer, running_server
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.suppression import OptWord, Suppressed

RECIPIENTS = tuple(f"97252000{n:04}" for n in range(5))
LIDS = {phone: f"9{phone}@lid" for phone in RECIPIENTS}


@pytest.fixture(scope="module")
def quick_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with running_server("valkey", tmp_path_factory.mktemp("quick")) as server:
        with redis.Redis(port=server.port) as client:
            client.config_set("appendonly", "no")
        yield server


class World:
    """Two sessions, three dispatchers and gateways, each with a connection of its own."""

    def __init__(self, url: str, seed: int) -> None:
        self.clock = ManualClock()
        self.stores = [Store(url, self.clock) for _ in range(3)]
        self.chance = random.Random(seed)
        self.sessions: list[str] = []
        self.claimed: list[tuple[str, str, int]] = []
        self.words = 0
        self.all_ids: list[str] = []

    async def begin(self) -> None:
        for phone in (PHONE, OTHER_PHONE):
            self.sessions.append(await linked(self.stores[0], phone))
            await plan(self.stores[0], self.clock, phone)

    def store(self) -> Store:
        return self.chance.choice(self.stores)

    async def send(self, to: str) -> None:
        sender = self.chance.choice([*self.sessions, ""])
        later = self.clock.now_ms() + self.chance.choice([0, 0, 5_000])
        at = later if later > self.clock.now_ms() else None
        recipient = self.chance.choice([to, to, LIDS[to]])
        with suppress(errors.RecipientOptedOut):
            self.all_ids.append(
                await accepted(self.store(), session_id=sender, to=recipient, schedule_at=at, defer=True)
            )

    async def dispatch(self, _: str) -> None:
        store = self.store()
        await Router(store=store, settings=load_settings({"TIMEZONE": "UTC"}), clock=self.clock).run_once()
        await store.lanes.release_due(lanes=10)

    async def work(self, _: str) -> None:
        session = self.chance.choice(self.sessions)
        for message in await self.store().outbox.claim(session, most=3):
            if self.chance.random() < 0.6:
                await self.store().outbox.ack(message["messageId"], session_id=session, sent_at=1)
            elif self.chance.random() < 0.5:
                with suppress(errors.LeaseLost):
                    await self.store().outbox.nack(
                        message["messageId"], session_id=session, token=message["token"], code="X", message="",
                        retryable=True, retry_after_ms=0, kind="unclear",
                    )  # fmt: skip

    async def time(self, _: str) -> None:
        self.clock.advance(seconds=self.chance.choice([1, 5, 130]))
        await self.store().outbox.requeue_expired()
        await self.store().outbox.wake_retries()

    async def say(self, to: str, kind: str) -> None:
        self.words += 1
        known = self.chance.random() < 0.7
        await self.store().suppression.word(OptWord(
            session=self.chance.choice(self.sessions), phone=to if known else LIDS[to], lid=LIDS[to],
            kind="out" if kind == "out" else "in", word="stop", wa=f"w{self.words}", at=self.words,
        ))  # fmt: skip

    async def say_out(self, to: str) -> None:
        await self.say(to, "out")

    async def say_in(self, to: str) -> None:
        await self.say(to, "in")

    async def by_hand(self, to: str) -> None:
        await self.store().suppression.add(Suppressed(phone=to, reason="hand", source="hand", at=1))

    async def off_list(self, to: str) -> None:
        with suppress(errors.NotSuppressed):
            await self.store().suppression.remove(to, by="test")

    async def check(self) -> None:
        """Nothing that waits is for a number on the list; the index knows everything that waits, and nothing else."""
        store = self.stores[0]
        on_list = set(await store.connection.call("HKEYS", keys.SUPPRESSED()))
        for session in self.sessions:
            for message_id in await store.connection.call("ZRANGE", keys.SESSION_OUTBOX(session), 0, -1):
                found = await store.messages.get(message_id)
                assert found is not None
                # one that a worker had before may lie there; it is cancelled when it is asked for
                assert found["recipient"] not in on_list or "claimedAt" in found, found
        waiting: dict[str, set[str]] = {}
        for message_id in self.all_ids:
            found = await store.messages.get(message_id)
            assert found is not None
            if found["state"] in {"accepted", "queued", "outbox", "claimed"}:
                waiting.setdefault(found["recipient"], set()).add(message_id)
                if found["recipient"] in on_list:
                    assert found["state"] == "claimed" or "claimedAt" in found, found
        for recipient in (*RECIPIENTS, *LIDS.values()):
            known = set(await store.connection.call("SMEMBERS", keys.RECIPIENT_WAITING(recipient)))
            assert known == waiting.get(recipient, set())


STEPS = ("send", "send", "send", "dispatch", "dispatch", "work", "time", "say_out", "say_in", "by_hand", "off_list")


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32), rounds=st.integers(5, 25))
def test_no_suppressed_number_reaches_an_outbox(quick_server: StoreServer, seed: int, rounds: int) -> None:
    async def scenario() -> None:
        with redis.Redis(port=quick_server.port) as client:
            client.flushall()
        world = World(quick_server.url, seed)
        try:
            await world.begin()
            for _ in range(rounds):
                steps = [(world.chance.choice(STEPS), world.chance.choice(RECIPIENTS)) for _ in range(6)]
                await asyncio.gather(*(getattr(world, step)(to) for step, to in steps))
                await world.check()
            await _nothing_more_is_handed_out(world)
        finally:
            await asyncio.gather(*(store.close() for store in world.stores))

    asyncio.run(scenario())


async def _nothing_more_is_handed_out(world: World) -> None:
    """Everybody opts out; from then on a worker gets nothing, however often it asks."""
    for to in RECIPIENTS:
        await world.stores[0].suppression.add(Suppressed(phone=to, lid=LIDS[to], source="hand", at=1))
    for _ in range(6):
        world.clock.advance(seconds=130)
        await world.dispatch("")
        await world.time("")
        for session in world.sessions:
            assert await world.store().outbox.claim(session, most=50) == []
    ends = {await state(world.stores[0], message_id) for message_id in world.all_ids}
    assert ends <= {"sent", "cancelled", "failed"}
    with pytest.raises(errors.RecipientOptedOut):
        await world.store().messages.enqueue(new_message(to=LIDS[RECIPIENTS[0]]))
