"""Short words for registry tests, and the check that the store is sound."""

from __future__ import annotations

import itertools
from typing import Any

from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.sessions import ConnectedAs, EventNumber, Reservation, SessionRequest

PHONE = "972500000001"
OTHER_PHONE = "972500000002"
FAR_AWAY = 10**15
_tokens = itertools.count()


def address(number: int) -> ProxyAddress:
    return ProxyAddress(f"proxy{number}.example", 1080, "user", "pass")


async def add_proxies(store: Store, count: int) -> list[str]:
    for number in range(count):
        await store.proxies.add(address(number))
    return [address(number).proxy_id for number in range(count)]


def request(**wanted: Any) -> SessionRequest:
    wanted.setdefault("token", f"token-{next(_tokens)}")
    return SessionRequest(**wanted)


async def reserve(store: Store, **wanted: Any) -> Reservation:
    return await store.sessions.reserve(request(**wanted), scan_by=FAR_AWAY)


async def connect(store: Store, session_id: str, phone: str, *, seq: int | None = None, at: int = FAR_AWAY) -> str:
    return await store.sessions.bind(session_id, EventNumber(at=at, seq=seq), ConnectedAs(phone=phone))


async def assert_sound(store: Store, *, cap: int = 4) -> None:
    """What must hold at every moment, whatever happened before."""
    call = store.connection.call
    sessions = {s.session_id: s for s in await store.sessions.all()}
    available = dict(await _pairs(store))
    held: dict[str, str] = {}
    for proxy in await store.proxies.all():
        assert len(proxy.sessions) <= cap, f"{proxy.proxy_id} holds {proxy.sessions}"
        counter = await call("GET", keys.COUNTER_PROXY(proxy.proxy_id))
        assert int(counter or 0) == len(proxy.sessions)
        for session_id in proxy.sessions:
            assert session_id in sessions, f"leaked slot of {session_id} on {proxy.proxy_id}"
            assert session_id not in held, f"{session_id} holds two slots"
            held[session_id] = proxy.proxy_id
        open_for_more = proxy.status == "active" and not proxy.draining and len(proxy.sessions) < cap
        assert (proxy.proxy_id in available) == open_for_more
        if open_for_more:
            assert available[proxy.proxy_id] == len(proxy.sessions)
    for session_id, session in sessions.items():
        assert session.proxy_id == held.get(session_id, ""), f"{session_id} believes to be on {session.proxy_id}"


async def _pairs(store: Store) -> list[tuple[str, float]]:
    flat: list[str] = await store.connection.call("EVAL", _WITH_SCORES, 0, keys.PROXIES_AVAILABLE())
    return [(member, float(score)) for member, score in zip(flat[::2], flat[1::2], strict=True)]


_WITH_SCORES = "return redis.call('ZRANGE', ARGV[1], 0, -1, 'WITHSCORES')"
