"""Carries out what is wanted of a session: provision, start, stop, replace, delete.

The order is always the same: first the store says what is wanted, then the worker is brought there. Whoever dies in
between, the reconciler finds the difference and finishes it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import OrchestratorError, RunnerUnavailable, SessionNotFound
from wa_orchestrator.model.proxy import Proxy, ProxyAddress
from wa_orchestrator.model.session import SAYS_IT_LIVES, Session
from wa_orchestrator.runners.port import Runner, WorkerLocked, WorkerSpec
from wa_orchestrator.sessions import folders
from wa_orchestrator.sessions.plan import Step, next_step
from wa_orchestrator.sessions.remote import ask_leader
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.sessions import SessionRequest
from wa_orchestrator.worker_api.signature import session_secret

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Provisioned:
    """A session that was just made, and the proxy it is on."""

    session: Session
    proxy: Proxy | None


class Lifecycle:
    def __init__(
        self, *, store: Store, runner: Runner, settings: Settings, clock: Clock, webhook_url: str, maker: str
    ) -> None:
        self._store = store
        self._runner = runner
        self._settings = settings
        self._clock = clock
        self._webhook_url = webhook_url
        self.maker = maker
        self._starts = asyncio.Semaphore(settings.start_budget)
        # whether this orchestrator runs the workers; app.py puts the lease's answer here
        self.leads: Callable[[], bool] = lambda: True
        self._held: dict[str, int] = {}

    # what the operator asks for --------------------------------------------------------------------------------
    async def provision(
        self,
        *,
        session_id: str = "",
        phone: str = "",
        proxy_id: str = "",
        proxy_address: ProxyAddress | None = None,
        allow_additional: bool = False,
        rebind: bool = False,
        label: str = "",
        metadata: dict[str, str] | None = None,
    ) -> Provisioned:
        """A new session with a running worker, or an error and nothing left of it."""
        request = SessionRequest(
            token=secrets.token_hex(12), maker=self.maker, session_id=session_id, phone=phone, proxy_id=proxy_id,
            proxy_address=proxy_address, allow_additional=allow_additional, rebind=rebind, label=label,
            metadata=metadata,
        )  # fmt: skip
        try:
            made = await self._store.sessions.reserve(request, scan_by=self._scan_by())
        except asyncio.CancelledError:
            # the caller hung up: the store may have made it all the same; the sweep of half-made sessions removes it
            raise
        try:
            await self.carry_out(made.session_id)
            # all that the answer needs is read before: once confirmed, the session stays, so nothing may fail any more
            session = await self._store.sessions.get(made.session_id)
            if session is None:
                raise SessionNotFound
            proxy = await self._store.proxies.get(session.proxy_id)
            await self._store.sessions.confirm(made.session_id)
        except BaseException:
            await asyncio.shield(self._undo(made.session_id))
            raise
        log.info("session_provisioned", session_id=made.session_id, proxy_id=made.proxy_id)
        return Provisioned(session=session, proxy=proxy)

    async def _undo(self, session_id: str) -> None:
        """Takes a half-made session back; what cannot be done now, the sweep does later."""
        try:
            if await self._store.sessions.delete(session_id, keep_s=0, only_unconfirmed=True):
                await self.carry_out(session_id)
                folders.set_aside(self._settings.sessions_path, session_id, now_ms=self._clock.now_ms())
        except OrchestratorError as error:
            log.warning("provisioning_not_undone_yet", session_id=session_id, error=str(error))

    async def start(self, session_id: str) -> None:
        await self._order(session_id, "start")

    async def restart(self, session_id: str, *, reason: str = "RESTART_ORDERED") -> None:
        await self._order(session_id, "restart", reason=reason)

    async def stop(self, session_id: str) -> None:
        await self._order(session_id, "stop", reason="STOP_ORDERED")

    async def delete(self, session_id: str, *, forget: bool = False) -> bool:
        """False when it was deleted before."""
        if await self._store.sessions.get(session_id) is None:
            if await self._store.sessions.was_deleted(session_id):
                return False
            raise SessionNotFound
        try:
            await self._order(session_id, "delete", forget=forget)
        except SessionNotFound:
            # somebody else deleted it between our look and our order
            return False
        return True

    async def _order(self, session_id: str, order: str, *, reason: str = "", forget: bool = False) -> None:
        await self._store.sessions.order(session_id, order, reason=reason, scan_by=self._scan_by(), forget=forget)
        await self.carry_out(session_id)

    def _scan_by(self) -> int:
        return self._clock.now_ms() + self._settings.scan_timeout_ms

    # bringing the worker there ---------------------------------------------------------------------------------
    async def carry_out(self, session_id: str) -> None:
        """Brings the worker to what is wanted: with our own hands if we lead, else through the leader."""
        if self.leads():
            await self.ensure(session_id)
        else:
            await ask_leader(self._store, session_id, self._clock)

    async def ensure(self, session_id: str) -> Step:
        """Brings the session's worker to what is wanted now. One process at a time; repeating it is harmless."""
        async with self._store.locks.hold(session_id, owner=self.maker):
            session = await self._store.sessions.get(session_id)
            if session is None:
                await self._runner.stop(session_id)
                return Step.STOP
            step = next_step(session, await self._runner.poll(session_id))
            if step in {Step.STOP, Step.REPLACE, Step.DELETE}:
                await self._runner.stop(session_id)
            if step in {Step.START, Step.REPLACE}:
                await self._start_and_tell(session)
            elif step is Step.DELETE:
                await self._remove(session)
            else:
                await self._tell(session, step)
        if step is not Step.NOTHING:
            log.info("session_step", session_id=session_id, step=step.value)
        return step

    @asynccontextmanager
    async def held(self, session_id: str, *, reason: str, resume: bool) -> AsyncIterator[None]:
        """The worker is stopped as long as the block lasts, and nobody starts it. It is no crash and no restart.

        What is wanted does not change: should this process be killed inside, the session's lock runs out and the
        reconciler starts the worker again. `resume` starts it here, without waiting for the reconciler.
        """
        async with self._store.locks.hold(session_id, owner=self.maker):
            self._held[session_id] = self._held.get(session_id, 0) + 1
            try:
                was_running = await self._runner.poll(session_id) is not None
                if was_running and await self._store.sessions.get(session_id):
                    await self._store.sessions.begin_run(session_id, reason=reason)
                await self._runner.stop(session_id)
                try:
                    yield
                finally:
                    session = await self._store.sessions.get(session_id) if resume and was_running else None
                    if session and next_step(session, None) is Step.START:
                        await self._start_and_tell(session)
            finally:
                self._held[session_id] -= 1
                if not self._held[session_id]:
                    del self._held[session_id]

    async def runs(self, session_id: str) -> bool:
        """Whether its worker runs now."""
        return await self._runner.poll(session_id) is not None

    def is_held(self, session_id: str) -> bool:
        """Its worker is stopped for a moment, on purpose."""
        return session_id in self._held

    async def _start_and_tell(self, session: Session) -> None:
        try:
            await self._start_worker(session)
        except OrchestratorError as error:
            await self._store.sessions.note_worker(session.session_id, ran_order=0, error=error.message)
            raise
        await self._store.sessions.note_worker(session.session_id, ran_order=session.run_order)

    async def _tell(self, session: Session, step: Step) -> None:
        """What other orchestrators wait for; nothing is written when they know it already."""
        runs = await self._runner.poll(session.session_id) if step is Step.NOTHING else None
        if session.ran_order != (order := runs.run_order if runs else 0):
            await self._store.sessions.note_worker(session.session_id, ran_order=order)

    async def _start_worker(self, session: Session) -> None:
        proxy = await self._store.proxies.get(session.proxy_id)
        if proxy is None:
            raise RunnerUnavailable("The session's proxy is not in the pool any more; restart the session.")
        if session.discard_auth:
            folders.set_aside(self._settings.sessions_path, session.session_id, now_ms=self._clock.now_ms())
            await self._store.sessions.auth_was_discarded(session.session_id)
        spec = WorkerSpec(
            session_id=session.session_id,
            run_order=session.run_order,
            proxy_id=session.proxy_id,
            proxy_url=proxy.address.url,
            webhook_url=self._webhook_url,
            webhook_secret=session_secret(self._settings.webhook_secret, session.session_id),
            enable_keep_alive=self._settings.enable_keep_alive,
            extra_env=_extra_env(self._settings),
        )
        await self._store.sessions.begin_run(session.session_id, reason="STARTING")
        try:
            async with self._starts:
                await self._runner.start(spec)
        except WorkerLocked:
            raise RunnerUnavailable("Another worker still uses this session's folder. Try again in a moment.") from None

    async def _remove(self, session: Session) -> None:
        # the folder first: a record without a folder shows a new QR, a folder without a record is never seen again
        folders.set_aside(self._settings.sessions_path, session.session_id, now_ms=self._clock.now_ms())
        keep_s = self._settings.deleted_keep_days * 86400
        await self._store.sessions.delete(session.session_id, keep_s=keep_s, forget=session.forget)

    async def say_who_is_gone(self, running: Collection[str]) -> None:
        """Sessions that still say they live though no worker of theirs does: told before anybody asks."""
        for session in await self._store.sessions.all():
            if session.status in SAYS_IT_LIVES and session.session_id not in running:
                await self._store.sessions.begin_run(session.session_id, reason="WORKER_DIED")

    # what a dead predecessor left ------------------------------------------------------------------------------
    async def sweep_half_made(self, *, own: bool) -> list[str]:
        """Removes half-made sessions that are overdue; `own`: also our predecessor's, whoever they waited for."""
        doomed = set(await self._store.sessions.overdue_unconfirmed())
        if own:
            # or every one of them would wait for a lock whose holder is dead
            await self._store.locks.release_left_by(self.maker)
            mine = await self._store.sessions.many(await self._store.sessions.unconfirmed())
            doomed |= {s.session_id for s in mine if s.maker == self.maker}
        for session_id in sorted(doomed):
            await self._undo(session_id)
            log.info("half_made_session_removed", session_id=session_id)
        return sorted(doomed)


def _extra_env(settings: Settings) -> dict[str, str]:
    """Optional worker settings that differ from the worker's own defaults."""
    extra: dict[str, str] = {}
    for name, value, usual in (
        ("PING_INTERVAL_MS", settings.ping_interval_ms, 15_000),
        ("PRESENCE_INTERVAL_MS", settings.presence_interval_ms, 15_000),
        ("SELF_MESSAGE_INTERVAL_MS", settings.self_message_interval_ms, 600_000),
        ("PROXY_TIMEOUT_MS", settings.proxy_timeout_ms, 10_000),
    ):
        if value != usual:
            extra[name] = str(value)
    for name, text in (
        ("WA_WEBSOCKET_URL", settings.wa_websocket_url),
        ("WA_ROOT_PUBLIC_KEY", settings.wa_root_public_key),
        ("WA_VERSION", settings.wa_version),
        ("NODE_EXTRA_CA_CERTS", str(Path(settings.wa_ca_file).absolute()) if settings.wa_ca_file else ""),
    ):
        if text:
            extra[name] = text
    if settings.log_level != "info":
        extra["LOG_LEVEL"] = {"warning": "warn"}.get(settings.log_level, settings.log_level)  # as Node says it
    if settings.max_media_bytes != 64 << 20:
        extra["MAX_MEDIA_BYTES"] = str(settings.max_media_bytes)
    if settings.inbound_media_max_bytes != 16 << 20:
        extra["INBOUND_MEDIA_MAX_BYTES"] = str(settings.inbound_media_max_bytes)
    for word in settings.worker_env.split():
        name, _, value_given = word.partition("=")
        extra[name] = value_given
    return extra
