"""The proxy pool as the rest of the system uses it: add, check, fail over, drain."""

from __future__ import annotations

import random

import structlog

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import OrchestratorError, ProxyNotFound
from wa_orchestrator.model.proxy import Proxy, ProxyAddress, ProxyStatus
from wa_orchestrator.proxies.exit_ip import exit_ip
from wa_orchestrator.proxies.probe import ProbeResult, probe
from wa_orchestrator.proxies.schedule import failures_after, next_check_in_s, verdict
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

# A worker retries by itself; one that was just started is not restarted again for the same complaint.
_LET_IT_TRY_MS = 60_000
# An exit address is asked for once an hour: it should never change, and the page that tells it is somebody else's.
_EXIT_IP_MS = 3_600_000


class ProxyPool:
    def __init__(self, *, store: Store, lifecycle: Lifecycle, settings: Settings, clock: Clock) -> None:
        self._store = store
        self._lifecycle = lifecycle
        self._settings = settings
        self._clock = clock
        self._looking: set[str] = set()

    async def add(self, address: ProxyAddress) -> bool:
        added = await self._store.proxies.add(address)
        if added:
            log.info("proxy_added", proxy_id=address.proxy_id, host=address.host, port=address.port)
        return added

    async def check(self, proxy_id: str, *, bad_after: int = 1) -> tuple[Proxy, ProbeResult]:
        """Probes the proxy now and writes the verdict; sessions of one that turns bad are moved."""
        result = await self.probe(proxy_id, bad_after=bad_after)
        again = await self._store.proxies.get(proxy_id)
        if again is None:
            raise ProxyNotFound(details={"proxy": proxy_id})
        return again, result

    async def probe(self, proxy_id: str, *, bad_after: int) -> ProbeResult:
        proxy = await self._store.proxies.get(proxy_id)
        if proxy is None:
            raise ProxyNotFound(details={"proxy": proxy_id})
        if proxy.status is ProxyStatus.BAD:
            await self._store.proxies.mark(proxy_id, ProxyStatus.TESTING)
        result = await probe(
            proxy.address,
            target=self._settings.proxy_check_target,
            timeout_s=self._settings.proxy_timeout_ms / 1000,
        )
        await self._write(proxy, result, bad_after=bad_after, more=await self._exit_ip(proxy) if result.ok else {})
        return result

    async def _exit_ip(self, proxy: Proxy) -> dict[str, str | int]:
        """What is new about the address under which the world sees the proxy."""
        url, now = self._settings.proxy_exit_ip_url, self._clock.now_ms()
        if not url or now - (proxy.exit_ip_at or 0) < _EXIT_IP_MS:
            return {}
        found = await exit_ip(proxy.address, url, timeout_s=self._settings.proxy_timeout_ms / 1000)
        return {"exitIp": found, "exitIpAt": now} if found else {}

    async def _write(self, proxy: Proxy, result: ProbeResult, *, bad_after: int, more: dict[str, str | int]) -> None:
        failures = failures_after(proxy.failures, result)
        status = verdict(proxy.status, failures, result, bad_after=bad_after)
        now = self._clock.now_ms()
        wait_s = next_check_in_s(
            status, failures, interval_s=self._settings.monitor_interval_ms / 1000, random=random.random
        )
        fields: dict[str, str | int] = {
            "failures": failures,
            "checkedAt": now,
            "nextCheckAt": now + int(wait_s * 1000),
            **more,
        }
        if result.latency_ms is not None:
            fields["latencyMs"] = result.latency_ms
        was, sessions = await self._store.proxies.mark(
            proxy.proxy_id,
            status,
            fields=fields,
            error="" if result.ok else result.text,
            kind="" if result.ok or result.kind is None else result.kind.value,
        )
        if status is ProxyStatus.BAD:
            if proxy.status is not ProxyStatus.BAD:
                log.warning("proxy_bad", proxy_id=proxy.proxy_id, kind=result.kind, text=result.text)
            await self.move_away(proxy.proxy_id, sessions, reason="PROXY_FAILED")
        elif was is not ProxyStatus.ACTIVE and status is ProxyStatus.ACTIVE:
            log.info("proxy_recovered", proxy_id=proxy.proxy_id)
        if status is ProxyStatus.ACTIVE:
            await self.resume_waiting()

    async def suspect(self, session_id: str, *, error: str) -> None:
        """A worker blames its proxy. One report is not a verdict: we look ourselves."""
        session = await self._store.sessions.get(session_id)
        if session is None or not session.proxy_id:
            return
        # four sessions of a dead proxy complain at once; one look answers them all
        if session.proxy_id in self._looking:
            return
        self._looking.add(session.proxy_id)
        try:
            proxy, result = await self.check(session.proxy_id)
        finally:
            self._looking.discard(session.proxy_id)
        if proxy.status is not ProxyStatus.BAD:
            log.info("proxy_kept", session_id=session_id, proxy_id=proxy.proxy_id, blamed_for=error[:200])
            young = self._clock.now_ms() - (session.started_at or 0) < _LET_IT_TRY_MS
            if result.ok and not young:
                # it works for us: a fresh worker tries again on the same proxy
                await self._store.sessions.order(
                    session_id, "restart", reason="PROXY_WORKS", only_if_run_order=session.run_order
                )
                await self._lifecycle.carry_out(session_id)

    async def move_away(self, proxy_id: str, sessions: list[str], *, reason: str, healthy: bool = False) -> int:
        """Moves sessions to other proxies, one after the other; those that find none wait, or stay if it is healthy."""
        moved = 0
        for session_id in sessions:
            try:
                answer = await self._store.sessions.move(
                    session_id, reason=reason, from_proxy=proxy_id, healthy=healthy
                )
                if answer["moved"] or answer["waiting"]:
                    log.info("session_moved", session_id=session_id, to=answer["proxy"], waiting=answer["waiting"])
                    await self._lifecycle.carry_out(session_id)
                moved += bool(answer["moved"])
            except OrchestratorError as error:
                log.warning("session_not_moved", session_id=session_id, code=error.code)
        return moved

    async def resume_waiting(self) -> None:
        """A slot may be free now: sessions that waited for one go on, on their own proxy if it is back."""
        for session_id in sorted(await self._store.sessions.waiting()):
            session = await self._store.sessions.get(session_id)
            if session is None:
                continue
            home = await self._store.proxies.get(session.proxy_id) if session.proxy_id else None
            if home and home.status is ProxyStatus.ACTIVE and not home.draining:
                await self._store.sessions.stop_waiting(session_id)
                await self._lifecycle.carry_out(session_id)
            else:
                await self.move_away(session.proxy_id, [session_id], reason="PROXY_FAILED")

    async def remove(self, proxy_id: str, *, drain: bool) -> int:
        """How many sessions still hold it: 0 means it is gone."""
        sessions = await self._store.proxies.remove(proxy_id, drain=drain)
        if not sessions:
            return 0
        proxy = await self._store.proxies.get(proxy_id)
        works = proxy is not None and proxy.status is ProxyStatus.ACTIVE
        await self.move_away(proxy_id, sessions, reason="DRAIN", healthy=works)
        return len(await self._store.proxies.remove(proxy_id, drain=True))

    async def go_on_draining(self) -> None:
        """Proxies that could not be emptied at once: a slot may be free elsewhere by now."""
        for proxy_id in await self._store.proxies.draining():
            await self.remove(proxy_id, drain=True)
