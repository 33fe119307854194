"""Looks what is due, claims it and does it. Runs at the leader; the claim keeps two leaders of a change-over apart."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from wa_orchestrator.background import repeat, unless_stopped
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import OrchestratorError
from wa_orchestrator.scheduler.due import Schedule
from wa_orchestrator.store import Store

log = structlog.get_logger()

_LOOK_EVERY_S = 1.0
# A run whose process died is noticed and done again after this; a living one renews it.
_CLAIM_MS = 60_000


@dataclass(frozen=True)
class Job:
    """Work with a schedule. `run` may be repeated after a crash."""

    name: str
    schedule: Schedule
    run: Callable[[], Awaitable[object]]


class Scheduler:
    def __init__(self, *, store: Store, jobs: Sequence[Job], clock: Clock) -> None:
        self._store = store
        self._jobs = tuple(jobs)
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Each job has its own loop: a long one does not hold the others up."""
        async with asyncio.TaskGroup() as group:
            for job in self._jobs:
                group.create_task(self._look_after(job, stop), name=f"job {job.name}")

    async def _look_after(self, job: Job, stop: asyncio.Event) -> None:
        async def once() -> None:
            # stopped in the middle it is not ended: whoever leads next does it again
            await unless_stopped(stop, self.run_once(job))

        await repeat(once, stop, every_s=_LOOK_EVERY_S, name=f"job {job.name}")

    async def run_once(self, job: Job) -> bool:
        """Does the job if it is due and nobody else does it; True when it was done."""
        token = secrets.token_hex(8)
        claimed = await self._store.jobs.claim(
            job.name,
            schedule=job.schedule.text(),
            next_due=job.schedule.next_due(self._clock.now_ms()),
            token=token,
            claim_ms=_CLAIM_MS,
        )
        if not claimed:
            return False
        log.info("job_started", job=job.name)
        renewal = asyncio.create_task(self._renew(job.name, token))
        try:
            await job.run()
        except OrchestratorError as error:
            log.error("job_failed", job=job.name, code=error.code, error=error.message)
            await self._store.jobs.end(job.name, token=token, error=error.code)
        except Exception as error:
            log.exception("job_failed", job=job.name)
            await self._store.jobs.end(job.name, token=token, error=type(error).__name__)
        else:
            await self._store.jobs.end(job.name, token=token, error="")
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)
        return True

    async def _renew(self, name: str, token: str) -> None:
        while True:
            await asyncio.sleep(_CLAIM_MS / 4000)
            try:
                await self._store.jobs.renew(name, token=token, claim_ms=_CLAIM_MS)
            except OrchestratorError as error:
                log.info("job_not_renewed", job=name, code=error.code)
