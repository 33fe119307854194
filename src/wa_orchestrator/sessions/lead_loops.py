"""The loops that only the leader runs: begun when it gains the lease, ended when it loses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from wa_orchestrator.background import Service, Services
from wa_orchestrator.runners.port import Runner
from wa_orchestrator.sessions.lifecycle import Lifecycle


class LeadLoops:
    def __init__(
        self,
        loops: Mapping[str, Service],
        *,
        runner: Runner,
        lifecycle: Lifecycle,
        recover: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._loops = loops
        self._recover = recover
        self._runner = runner
        self._lifecycle = lifecycle
        self._running = Services()
        # our own half-made sessions are a dead predecessor's only until we serve; later they may be under way here
        self.before_serving = True
        self.adopted = 0
        self.removed = 0

    async def begin(self) -> None:
        """First the running workers are found, so that none is started a second time."""
        adopted = {worker.session_id for worker in await self._runner.open()}
        self.adopted = len(adopted)
        await self._lifecycle.say_who_is_gone(adopted)
        self.removed = len(await self._lifecycle.sweep_half_made(own=self.before_serving))
        if self._recover:
            # a restore that a dead leader left half-done: finished or undone before any loop starts a worker
            await self._recover()
        for name, loop in self._loops.items():
            self._running.start(name, loop)

    async def end(self) -> None:
        await self._running.stop()
