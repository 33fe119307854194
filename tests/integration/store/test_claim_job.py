"""Scheduled work in the store: due once, however many look; caught up once; done again after a crash."""

from __future__ import annotations

import asyncio

from wa_orchestrator.clock import ManualClock
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.scheduler.due import Every
from wa_orchestrator.scheduler.loop import Job, Scheduler
from wa_orchestrator.store import Store

HOUR = 3600


class Work:
    def __init__(self) -> None:
        self.runs = 0
        self.error: Exception | None = None

    async def __call__(self) -> None:
        self.runs += 1
        if self.error:
            raise self.error


def job(work: Work, *, seconds: int = HOUR) -> Job:
    return Job("backup", Every(seconds), work)


def scheduler(store: Store, clock: ManualClock) -> Scheduler:
    return Scheduler(store=store, jobs=[], clock=clock)


async def test_new_work_waits_for_its_first_due_time(store: Store, clock: ManualClock) -> None:
    work = Work()
    assert not await scheduler(store, clock).run_once(job(work))
    clock.advance(seconds=HOUR - 1)
    assert not await scheduler(store, clock).run_once(job(work))
    clock.advance(seconds=1)
    assert await scheduler(store, clock).run_once(job(work))
    assert not await scheduler(store, clock).run_once(job(work))
    assert work.runs == 1


async def test_many_missed_runs_are_caught_up_once(store: Store, clock: ManualClock) -> None:
    work = Work()
    await scheduler(store, clock).run_once(job(work))
    clock.advance(seconds=10 * HOUR)
    for _ in range(5):
        await scheduler(store, clock).run_once(job(work))
    assert work.runs == 1
    clock.advance(seconds=HOUR)
    await scheduler(store, clock).run_once(job(work))
    assert work.runs == 2


async def test_ten_schedulers_do_it_once(store: Store, clock: ManualClock) -> None:
    work = Work()
    await scheduler(store, clock).run_once(job(work))
    clock.advance(seconds=HOUR)
    done = await asyncio.gather(*(scheduler(store, clock).run_once(job(work)) for _ in range(10)))
    assert sum(done) == work.runs == 1


async def test_a_run_whose_process_died_is_done_again_but_not_for_ever(store: Store, clock: ManualClock) -> None:
    async def claim(token: str) -> bool:
        due = clock.now_ms() + HOUR * 1000
        return await store.jobs.claim("backup", schedule="x", next_due=due, token=token, claim_ms=60_000)

    await claim("nobody")
    clock.advance(seconds=HOUR)
    assert await claim("first")
    assert not await claim("second")  # it lives
    clock.advance(seconds=61)
    assert await claim("second")
    assert not await store.jobs.end("backup", token="first", error="")  # the dead one has no say
    clock.advance(seconds=61)
    assert await claim("third")
    clock.advance(seconds=61)
    assert not await claim("fourth")
    assert (await store.jobs.get("backup"))["lastError"] == "INTERRUPTED"


async def test_a_living_run_keeps_its_claim(store: Store, clock: ManualClock) -> None:
    await store.jobs.claim("backup", schedule="x", next_due=clock.now_ms() + 1000, token="a", claim_ms=1000)
    clock.advance(seconds=1)
    args = {"schedule": "x", "next_due": clock.now_ms() + HOUR * 1000, "claim_ms": 60_000}
    assert await store.jobs.claim("backup", token="a", **args)  # type: ignore[arg-type]
    clock.advance(seconds=50)
    assert await store.jobs.renew("backup", token="a", claim_ms=60_000)
    clock.advance(seconds=50)
    assert not await store.jobs.claim("backup", token="b", **args)  # type: ignore[arg-type]


async def test_another_schedule_is_planned_anew(store: Store, clock: ManualClock) -> None:
    work = Work()
    await scheduler(store, clock).run_once(job(work, seconds=60))
    clock.advance(seconds=61)
    assert not await scheduler(store, clock).run_once(job(work, seconds=HOUR))
    clock.advance(seconds=HOUR)
    assert await scheduler(store, clock).run_once(job(work, seconds=HOUR))


async def test_a_failed_run_is_remembered_and_the_next_comes(store: Store, clock: ManualClock) -> None:
    work = Work()
    work.error = StoreUnavailable()
    await scheduler(store, clock).run_once(job(work))
    for runs, error in ((1, "STORE_UNAVAILABLE"), (2, "STORE_UNAVAILABLE")):
        clock.advance(seconds=HOUR)
        await scheduler(store, clock).run_once(job(work))
        assert work.runs == runs
        assert (await store.jobs.get("backup"))["lastError"] == error


async def test_a_clock_that_was_ahead_and_is_set_back_delays_nothing(store: Store, clock: ManualClock) -> None:
    work = Work()
    await scheduler(store, clock).run_once(job(work))
    clock.advance(seconds=40 * 24 * HOUR)
    assert await scheduler(store, clock).run_once(job(work))
    clock.advance(seconds=-40 * 24 * HOUR)
    await scheduler(store, clock).run_once(job(work))
    clock.advance(seconds=HOUR)
    assert await scheduler(store, clock).run_once(job(work))
    assert work.runs == 2
