"""Pacing limits hold at every moment, whatever dispatchers, workers and operators do: weeks in a simulated clock.

Two dispatchers share the work, workers die, answer late or not at all, sessions come and go, limits change. What a
simulated WhatsApp really saw is compared with the limits, which are computed here once more, from the wall clock.
"""

from __future__ import annotations

import asyncio
import bisect
import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.messages import DAY_MS, UNPACED, accepted, dispatcher, linked, set_status, state
from support.registry import connect
from support.servers import StoreServer, running_server
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.limits import Hours, Limits, read_override
from wa_orchestrator.model.session import Status
from wa_orchestrator.store import Store, StoreRules, keys
from wa_orchestrator.store.outbox import Kind

LEASE_MS, LEASE_MARGIN_MS = 120_000, 1000  # a worker begins nothing when less than this is left (worker/src/sender.ts)
SENT = {"sent", "delivered", "read"}
PHONES = ("972500000001", "972500000002", "972500000003")


@pytest.fixture(scope="module")
def quick_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    """A real server that does not write to disk: thousands of steps, no power cut."""
    with running_server("valkey", tmp_path_factory.mktemp("quick")) as server:
        with redis.Redis(port=server.port) as client:
            client.config_set("appendonly", "no")
        yield server


@dataclass(frozen=True)
class Send:
    at: int
    message_id: str
    number: int
    recipient: str


@dataclass
class Worker:
    """One session's worker: sends what it claims, one by one; its ledger survives its death."""

    session_id: str
    phone: str
    ledger: set[str] = field(default_factory=set)
    hand: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)  # (when, what, message)
    asleep_until: int = 0


@dataclass(frozen=True)
class World:
    """What a run is about."""

    limits: tuple[dict[str, Any], ...]  # one override per phone
    start: str
    days: int
    messages: int
    sessions_per_phone: int
    trouble: float
    changes: bool


def in_force(override: dict[str, Any]) -> Limits:
    values = read_override({**UNPACED, **override}, now_ms=0).values
    return Limits(**{"timezone": "UTC", **values})


class Run:
    def __init__(self, url: str, world: World, seed: int) -> None:
        self.world = world
        self.dice = random.Random(seed)
        began = int(datetime.fromisoformat(world.start).replace(tzinfo=UTC).timestamp() * 1000)
        self.clock = ManualClock(began)
        rules = StoreRules(message_lease_ms=LEASE_MS)
        self.stores = [Store(url, self.clock, rules) for _ in range(2)]
        self.dispatchers = [dispatcher(store, self.clock) for store in self.stores]
        self.workers: list[Worker] = []
        self.limits: dict[str, list[tuple[int, Limits]]] = defaultdict(list)
        self.sends: dict[str, list[Send]] = defaultdict(list)
        self.ids: dict[str, tuple[str, str, int]] = {}  # id → phone, recipient, number
        self.unsure: set[str] = set()
        self.arrivals: list[int] = []

    @property
    def store(self) -> Store:
        return self.dice.choice(self.stores)

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    async def set_limits(self, phone: str, override: dict[str, Any]) -> None:
        self.limits[phone].append((self.now, in_force(override)))
        first = next(w for w in self.workers if w.phone == phone)
        await self.store.lanes.set_override(first.session_id, {**UNPACED, **override})
        await self.store.lanes.replan(phone)

    async def play(self) -> None:
        await self.stores[0].connection.call("FLUSHALL")
        for number, override in enumerate(self.world.limits):
            for _ in range(self.world.sessions_per_phone):
                self.workers.append(Worker(await linked(self.store, PHONES[number]), PHONES[number]))
            await self.set_limits(PHONES[number], override)
        span = self.world.days * DAY_MS
        # half of them come in floods
        floods = [self.now + self.dice.randrange(span) for _ in range(4)]
        self.arrivals = sorted(
            self.dice.choice(floods) + self.dice.randrange(120_000) if self.dice.random() < 0.5
            else self.now + self.dice.randrange(span)
            for _ in range(self.world.messages)
        )  # fmt: skip
        deadline = self.now + span + 400 * DAY_MS
        trouble_ends = self.now + span
        while self.arrivals or await self._waiting():
            calm = self.now > trouble_ends
            await self._step(calm=calm)
            await self._sleep_until_something_happens()
            assert self.now < deadline, f"still waiting: {await self._waiting()}"

    async def _waiting(self) -> int:
        sizes = [await self.stores[0].lanes.sizes(phone) for phone in PHONES[: len(self.world.limits)]]
        jobs = await self.stores[0].connection.call("ZCARD", keys.GATEWAY_JOBS())
        return sum(a + b for a, b in sizes) + int(jobs)

    async def _step(self, *, calm: bool) -> None:
        while self.arrivals and self.arrivals[0] <= self.now:
            self.arrivals.pop(0)
            await self._arrive()
        await self._dispatch(calm=calm)
        for worker in self.workers:
            await self._work(worker, calm=calm)
        if not calm and self.world.trouble and self.dice.random() < 0.01:
            await self._session_trouble()
        if not calm and self.world.changes and self.dice.random() < 0.01:
            phone = self.dice.choice(PHONES[: len(self.world.limits)])
            zone = self.limits[phone][0][1].timezone
            low = self.dice.choice([0, 500, 4000])
            changed: dict[str, Any] = {
                "daily": self.dice.choice([3, 10, 30, None]),
                "perMinute": self.dice.choice([1, 4, 10, None]),
                "minDelayMs": low,
                "maxDelayMs": low * 2,
                "timezone": zone,
            }
            await self.set_limits(phone, changed)

    async def _arrive(self) -> None:
        worker = self.dice.choice(self.workers)
        recipient = f"97252{self.dice.randrange(8):07}"
        sender = {"session_id": worker.session_id} if self.dice.random() < 0.5 else {"phone": worker.phone}
        expires = self.now + 3 * DAY_MS if self.dice.random() < 0.05 else None
        message_id = await accepted(self.store, to=recipient, defer=True, priority=self.dice.randint(1, 3),
                                    expires_at=expires, **sender)  # fmt: skip
        self.ids[message_id] = (worker.phone, recipient, len(self.ids))

    async def _dispatch(self, *, calm: bool) -> None:
        if not calm and self.dice.random() < self.world.trouble * 0.2:
            # one dies between releasing and planning
            await self.store.lanes.release_due(lanes=500)
        await asyncio.gather(*(d.run_once() for d in self.dispatchers))
        await self.store.outbox.requeue_expired()
        await self.store.messages.expire_due()
        await self.store.outbox.wake_retries()

    async def _session_trouble(self) -> None:
        worker = self.dice.choice(self.workers)
        session = await self.store.sessions.get(worker.session_id)
        assert session is not None
        if session.status is Status.CONNECTED:
            await set_status(self.store, worker.session_id, Status.RECONNECTING)
            worker.asleep_until = self.now + self.dice.choice([5_000, 300_000, 30 * 3_600_000])

    async def _work(self, worker: Worker, *, calm: bool) -> None:
        if worker.asleep_until > self.now:
            return
        if worker.asleep_until:
            worker.asleep_until = 0
            session = await self.store.sessions.get(worker.session_id)
            if session is None or session.status is not Status.CONNECTED:
                await connect(self.store, worker.session_id, worker.phone)
        for due, what, message in [h for h in worker.hand if h[0] <= self.now]:
            worker.hand.remove((due, what, message))
            await self._finish(worker, what, message)
        if any(what == "send" for _, what, _ in worker.hand):
            return  # one by one
        for message in await self.store.outbox.claim(worker.session_id, most=self.dice.choice([1, 1, 4])):
            self._plan_work(worker, message, calm=calm)

    def _plan_work(self, worker: Worker, message: dict[str, Any], *, calm: bool) -> None:
        queue_ms = sum(1 for _, what, _ in worker.hand if what == "send") * 3000
        if not calm and self.dice.random() < self.world.trouble * 0.3:
            # it dies: what it held is forgotten, its ledger is not
            worker.hand.clear()
            worker.asleep_until = self.now + self.dice.choice([100, 10_000, 200_000])
            return
        worker.hand.append((self.now + queue_ms + self.dice.randrange(100, 4000), "send", message))

    async def _finish(self, worker: Worker, what: str, message: dict[str, Any]) -> None:
        store, message_id = self.store, message["messageId"]
        trouble = self.dice.random() < self.world.trouble
        if what == "ack":
            await store.outbox.ack(message_id, session_id=worker.session_id, sent_at=self.now)
            return
        repeated = message["waMessageId"] in worker.ledger
        if message["expiresAt"] - self.now < LEASE_MARGIN_MS:
            return
        if trouble and self.dice.random() < 0.5 and not repeated:
            kind: Kind = self.dice.choice(["refused", "unclear", "limited"])
            if kind == "unclear" and self.dice.random() < 0.5:
                self._really_send(worker, message)
            code = {"refused": "WA_REJECTED", "unclear": "ACK_TIMEOUT", "limited": "RATE_LIMITED"}[kind]
            try:
                await store.outbox.nack(
                    message_id, session_id=worker.session_id, token=message["token"], code=code, message="",
                    retryable=self.dice.random() < 0.8, retry_after_ms=None, kind=kind, block_ms=60_000,
                )  # fmt: skip
                self.unsure |= {message_id} if kind == "unclear" else set()
            except errors.LeaseLost:
                self.unsure.add(message_id)
            return
        if not repeated:
            self._really_send(worker, message)
        if trouble and self.dice.random() < 0.3:
            await store.messages.receipt(message_id, session_id=worker.session_id, status="delivered", at=self.now)
        late = self.dice.choice([100, 5_000, 90_000, 400_000]) if trouble else self.dice.randrange(5, 500)
        if late > LEASE_MS / 2:
            self.unsure.add(message_id)
        worker.hand.append((self.now + late, "ack", message))

    def _really_send(self, worker: Worker, message: dict[str, Any]) -> None:
        phone, recipient, number = self.ids[message["messageId"]]
        assert phone == worker.phone
        worker.ledger.add(message["waMessageId"])
        self.sends[phone].append(Send(self.now, message["messageId"], number, recipient))

    async def _sleep_until_something_happens(self) -> None:
        call = self.stores[0].connection.call
        waits = (keys.LANES_DUE, keys.CLAIMS_EXPIRING, keys.MESSAGES_EXPIRING, keys.OUTBOX_RETRIES)
        firsts = await asyncio.gather(*(call("ZRANGE", key(), 0, 0, "WITHSCORES") for key in waits))
        times = [int(float(found[0][1] if isinstance(found[0], list) else found[1])) for found in firsts if found]
        if firsts[-1] and any(worker.asleep_until > self.now for worker in self.workers):
            times[-1] = max(times[-1], self.now + 1_200_000)  # an outbox whose worker is away: nothing new there
        times += self.arrivals[:1]
        times += [due for worker in self.workers if worker.asleep_until <= self.now for due, _, _ in worker.hand]
        times += [worker.asleep_until for worker in self.workers if worker.asleep_until > self.now]
        pause = max(1, min(times, default=self.now + 60_000) - self.now)
        if self.dice.random() < 0.1:
            pause += self.dice.randrange(2000)  # late
        self.clock.advance(seconds=(pause + 0.5) / 1000)

    # what must hold ------------------------------------------------------------------------------------------------
    async def check(self) -> None:
        for phone, sends in self.sends.items():
            ordered = sorted(sends, key=lambda s: s.at)
            assert len({s.message_id for s in sends}) == len(sends), "sent twice"
            self._check_days(phone, ordered)
            self._check_minutes(phone, ordered)
            self._check_gaps(phone, ordered)
            self._check_hours(phone, ordered)
            self._check_order(ordered)
        await self._check_ends()

    def _ruling(self, phone: str, start: int, end: int) -> list[Limits]:
        """Every set of limits that was in force at some moment of this time."""
        changes = self.limits[phone]
        first = max(0, bisect.bisect_right([at for at, _ in changes], start) - 1)
        return [limits for at, limits in changes[first:] if at <= end]

    def _check_days(self, phone: str, sends: list[Send]) -> None:
        days: dict[date, list[Send]] = defaultdict(list)
        zone = ZoneInfo(self.limits[phone][0][1].timezone)
        for send in sends:
            days[_local(send.at, zone).date()].append(send)
        for day, sent in days.items():
            most = max_or_none(rule.daily for rule in self._ruling(phone, sent[0].at - 2 * LEASE_MS, sent[-1].at))
            assert most is None or len(sent) <= most, f"{len(sent)} on {day}, {most} allowed"

    def _check_minutes(self, phone: str, sends: list[Send]) -> None:
        times = [s.at for s in sends]
        for at in times:
            count = bisect.bisect_left(times, at + 60_000) - bisect.bisect_left(times, at)
            most = max_or_none(rule.per_minute for rule in self._ruling(phone, at - 2 * LEASE_MS, at + 60_000))
            assert most is None or count <= most, f"{count} in a minute, {most} allowed"

    def _check_gaps(self, phone: str, sends: list[Send]) -> None:
        run = 1
        for before, after in itertools.pairwise(sends):
            gap = after.at - before.at
            rules = self._ruling(phone, before.at - 2 * LEASE_MS, after.at)
            least = min(rule.min_delay_ms for rule in rules)
            assert gap >= least, f"{gap} ms apart, {least} wanted"
            if any(rule.burst is None for rule in rules):
                run = 1
                continue
            run = 1 if gap >= min(rule.burst.pause_ms for rule in rules if rule.burst) else run + 1
            most = max(rule.burst.count for rule in rules if rule.burst)
            assert run <= most, f"{run} messages without a pause, {most} allowed"

    def _check_hours(self, phone: str, sends: list[Send]) -> None:
        for send in sends:
            rules = self._ruling(phone, send.at - 2 * LEASE_MS, send.at)
            local = _local(send.at, ZoneInfo(rules[0].timezone))
            assert any(_is_open(rule.hours, local) for rule in rules), f"sent at {local}"

    def _check_order(self, sends: list[Send]) -> None:
        last: dict[str, int] = {}
        for send in sends:
            assert send.number > last.get(send.recipient, -1), f"order of {send.recipient}"
            last[send.recipient] = send.number

    async def _check_ends(self) -> None:
        really = {send.message_id for sends in self.sends.values() for send in sends}
        store = self.stores[0]
        states = {message_id: await state(store, message_id) for message_id in self.ids}
        for message_id, ended in states.items():
            assert ended in SENT | {"failed", "expired"}, f"{message_id} is {ended}"
            if ended in SENT:
                assert message_id in really, "called sent, but nobody sent it"
            elif message_id in really:
                assert message_id in self.unsure, f"it was sent but is called {ended}"
        day_counts = [
            await store.connection.call("HGETALL", k) for k in await store.connection.call("KEYS", "stats:day:*")
        ]
        assert sum(int(c.get("sent", 0)) for c in day_counts) == sum(s in SENT for s in states.values())
        assert sum(int(c.get("accepted", 0)) for c in day_counts) == len(self.ids)

    async def close(self) -> None:
        for store in self.stores:
            await store.close()


def max_or_none(values: Iterator[int | None]) -> int | None:
    found = list(values)
    return None if None in found else max(v for v in found if v is not None)


def _local(at_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone)


def _is_open(hours: Hours | None, local: datetime) -> bool:
    if hours is None:
        return True
    minute = local.hour * 60 + local.minute
    if hours.opens < hours.closes:
        return hours.opens <= minute < hours.closes
    return minute >= hours.opens or minute < hours.closes


def play(url: str, world: World, seed: int) -> Run:
    async def whole() -> Run:
        run = Run(url, world, seed)
        try:
            await run.play()
            await run.check()
        finally:
            await run.close()
        return run

    return asyncio.run(whole())


some_zone = st.sampled_from(["Asia/Jerusalem", "America/New_York", "Asia/Beirut", "UTC"])
some_hours = st.sampled_from([None, "09:00-21:00", "22:00-02:30", "01:30-04:00", "00:00-24:00"])
some_delay = st.sampled_from([(0, 0), (0, 3000), (2000, 4000), (5000, 8000)])
some_limits = st.builds(
    lambda daily, per_minute, delay, hours, burst, zone: {
        "daily": daily, "perMinute": per_minute, "minDelayMs": delay[0], "maxDelayMs": delay[1], "hours": hours,
        "burst": burst, "timezone": zone,
    },
    st.sampled_from([None, 5, 12, 40]), st.sampled_from([None, 1, 3, 8]), some_delay, some_hours,
    st.sampled_from([None, {"count": 3, "pauseMs": 30_000}, {"count": 7, "pauseMs": 5_000}]), some_zone,
)  # fmt: skip
# the weeks in which clocks change, and one in which nothing happens
some_start = st.sampled_from(["2026-03-05T00:00", "2026-03-26T00:00", "2026-10-23T00:00", "2026-10-31T00:00",
                              "2026-06-01T00:00"])  # fmt: skip
some_world = st.builds(
    World,
    limits=st.lists(some_limits, min_size=1, max_size=2).map(tuple),
    start=some_start,
    days=st.integers(2, 9),
    messages=st.integers(20, 90),
    sessions_per_phone=st.integers(1, 2),
    trouble=st.sampled_from([0.0, 0.1, 0.4]),
    changes=st.booleans(),
)


@settings(max_examples=12, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(world=some_world, seed=st.integers(0, 2**32))
def test_limits_hold_for_any_limits_arrivals_and_faults(quick_server: StoreServer, world: World, seed: int) -> None:
    play(quick_server.url, world, seed)


def test_four_weeks_of_three_phones_keep_every_limit(quick_server: StoreServer) -> None:
    """Across the end of daylight-saving time in Jerusalem (25 October) and New York (1 November)."""
    world = World(
        limits=(
            {"daily": 20, "perMinute": 5, "minDelayMs": 5000, "maxDelayMs": 8000, "hours": "09:00-21:00",
             "burst": {"count": 20, "pauseMs": 30_000}, "timezone": "Asia/Jerusalem"},
            {"daily": 30, "perMinute": 15, "minDelayMs": 3000, "maxDelayMs": 5000, "hours": "22:00-06:00",
             "burst": {"count": 5, "pauseMs": 30_000}, "timezone": "America/New_York"},
            {"daily": 25, "perMinute": 6, "burst": {"count": 4, "pauseMs": 10_000}, "timezone": "Asia/Jerusalem"},
        ),
        start="2026-10-12T00:00", days=28, messages=700, sessions_per_phone=2, trouble=0.15, changes=False,
    )  # fmt: skip
    run = play(quick_server.url, world, seed=4)
    assert sum(len(sends) for sends in run.sends.values()) > 500
