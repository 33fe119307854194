"""Counts the stock and says what runs low. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wa_orchestrator.model.proxy import Proxy, ProxyStatus
from wa_orchestrator.model.session import Glance, Session, Status, Wanted
from wa_orchestrator.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Stock:
    free_slots: int
    healthy_proxies: int
    connected_sessions: int
    profiles: int
    in_use: bool  # a new installation has nothing of anything, and that is no news

    def counts(self) -> dict[str, int]:
        return {
            "freeSlots": self.free_slots, "healthyProxies": self.healthy_proxies,
            "connectedSessions": self.connected_sessions, "profiles": self.profiles,
        }  # fmt: skip

    def low(self, thresholds: dict[str, int]) -> list[str]:
        """What is below its threshold; 0 asks for nothing."""
        if not self.in_use:
            return []
        return [name for name, count in self.counts().items() if count < thresholds[name]]


def count_stock(
    *, proxies: Iterable[Proxy], sessions: Iterable[Session | Glance], profiles: Iterable[str], slots_per_proxy: int
) -> Stock:
    """`profiles` are their phones; one whose phone has a session is used up."""
    known = [session for session in sessions if session.wanted is not Wanted.DELETED]
    pool = list(proxies)
    healthy = [proxy for proxy in pool if proxy.status is ProxyStatus.ACTIVE and not proxy.draining]
    phones = {session.phone for session in known}
    return Stock(
        free_slots=sum(max(0, slots_per_proxy - len(proxy.sessions)) for proxy in healthy),
        healthy_proxies=len(healthy),
        connected_sessions=sum(session.status is Status.CONNECTED for session in known),
        profiles=sum(phone not in phones for phone in profiles),
        in_use=bool(pool or known),
    )


def thresholds_of(settings: Settings) -> dict[str, int]:
    return {
        "freeSlots": settings.low_free_slots, "healthyProxies": settings.low_healthy_proxies,
        "connectedSessions": settings.low_connected_sessions, "profiles": settings.low_profiles,
    }  # fmt: skip
