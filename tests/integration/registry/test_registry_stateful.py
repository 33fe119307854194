"""The registry under any order of calls, compared with a plain model after every step.

Whatever happens: never more sessions on a proxy than it has slots, no slot leaked or doubled, and a phone's binding
changes only because its proxy failed or because somebody ordered it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from support.registry import FAR_AWAY, address, assert_sound, reserve
from support.servers import StoreServer
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.model.proxy import Proxy, ProxyStatus
from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.store import Store, StoreRules
from wa_orchestrator.store.sessions import ConnectedAs, EventEffect, EventNumber

CAP, PER_PHONE, PROXIES = 2, 2, 3
PHONES = ("972500000001", "972500000002")
ENDED = {Status.LOGGED_OUT, Status.FAILED}

T = TypeVar("T")
some_phone = st.sampled_from([PHONES[0], PHONES[0], PHONES[1]])  # one of them meets itself often
some_proxy = st.integers(0, PROXIES - 1)
some_pick = st.integers(0, 1000)


@dataclass(frozen=True)
class Seen:
    """The store at one moment."""

    sessions: dict[str, Session]
    proxies: dict[str, Proxy]
    bound: dict[str, str]

    def healthy(self, proxy_id: str) -> bool:
        proxy = self.proxies.get(proxy_id)
        return proxy is not None and proxy.status is ProxyStatus.ACTIVE and not proxy.draining

    def room(self, proxy_id: str) -> bool:
        return len(self.proxies[proxy_id].sessions) < CAP

    def open_proxies(self) -> dict[str, int]:
        """Healthy proxies with a free slot, and their load."""
        return {p: len(self.proxies[p].sessions) for p in self.proxies if self.healthy(p) and self.room(p)}

    def live(self, phone: str) -> list[Session]:
        return [s for s in self.sessions.values() if s.phone == phone and s.status not in ENDED]


class Registry(RuleBasedStateMachine):
    url = ""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.clock = ManualClock()
        self.store: Store = self.run(self._open())
        # the model: which sessions exist, which hold a slot, which were put on their proxy by hand
        self.ids: set[str] = set()
        self.holders: set[str] = set()
        self.by_hand: set[str] = set()
        self.gone: set[str] = set()
        self.ordered: set[str] = set()  # phones whose binding this step may change
        self.before = Seen({}, {}, {})

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    async def _open(self) -> Store:
        store = Store(self.url, self.clock, StoreRules(slots_per_proxy=CAP, sessions_per_phone=PER_PHONE))
        await store.connection.call("FLUSHALL")
        return store

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()

    async def _look(self) -> Seen:
        sessions, proxies = await asyncio.gather(self.store.sessions.all(), self.store.proxies.all())
        bound = await asyncio.gather(*(self.store.sessions.bound_proxy(phone) for phone in PHONES))
        return Seen(
            {s.session_id: s for s in sessions},
            {p.proxy_id: p for p in proxies},
            {phone: proxy for phone, proxy in zip(PHONES, bound, strict=True) if proxy},
        )

    def pick(self, number: int) -> str:
        """Some session; now and then one that was deleted, to see that repeats are harmless."""
        known = sorted(self.gone) if self.gone and number % 8 == 7 else sorted(self.ids)
        return known[number // 8 % len(known)]

    # proxies ---------------------------------------------------------------------------------------------------
    @initialize(loads=st.lists(st.integers(0, CAP), min_size=2, max_size=PROXIES))
    def some_proxies(self, loads: list[int]) -> None:
        """A pool that is in use already."""
        for number, load in enumerate(loads):
            self.run(self.store.proxies.add(address(number)))
            for _ in range(load):
                made = self.run(reserve(self.store, proxy_id=address(number).proxy_id))
                self.ids.add(made.session_id)
                self.holders.add(made.session_id)
                self.by_hand.add(made.session_id)
        self.before = self.run(self._look())

    @rule(number=some_proxy)
    def add_proxy(self, number: int) -> None:
        added = self.run(self.store.proxies.add(address(number)))
        assert added == (address(number).proxy_id not in self.before.proxies)

    @rule(number=some_proxy, drain=st.booleans())
    def remove_proxy(self, number: int, drain: bool) -> None:
        proxy_id = address(number).proxy_id
        proxy = self.before.proxies.get(proxy_id)
        try:
            left = self.run(self.store.proxies.remove(proxy_id, drain=drain))
        except errors.ProxyNotFound:
            assert proxy is None
        except errors.ProxyInUse:
            assert proxy
            assert proxy.sessions
            assert not drain
        else:
            assert proxy
            assert left == sorted(proxy.sessions)
            if not left:
                self.ordered |= {phone for phone, at in self.before.bound.items() if at == proxy_id}
            for session_id in left:
                self.run(self.store.sessions.move(session_id, reason="DRAIN", from_proxy=proxy_id))

    @rule(number=some_proxy, status=st.sampled_from(ProxyStatus))
    def mark(self, number: int, status: ProxyStatus) -> None:
        proxy_id = address(number).proxy_id
        if proxy_id in self.before.proxies:
            self.run(self.store.proxies.mark(proxy_id, status, error="x", kind="timeout"))

    @rule(number=some_proxy, times=st.integers(1, 2))
    def fail_over(self, number: int, times: int) -> None:
        """A proxy turns bad and its sessions are moved, as the pool does it; perhaps twice for the same fault."""
        used = sorted(p.proxy_id for p in self.before.proxies.values() if p.sessions)
        if not used:
            return
        proxy_id = used[number % len(used)]
        _, sessions = self.run(self.store.proxies.mark(proxy_id, ProxyStatus.BAD, error="x", kind="timeout"))
        for session_id in sessions * times:
            answer = self.run(self.store.sessions.move(session_id, reason="PROXY_FAILED", from_proxy=proxy_id))
            assert not (answer["moved"] and answer["waiting"])

    @rule()
    def resume_waiting(self) -> None:
        for session_id in sorted(self.run(self.store.sessions.waiting())):
            session = self.run(self.store.sessions.get(session_id))
            assert session, "a deleted session waits"
            assert session.wanted is Wanted.RUNNING, "an ended session waits for a proxy"
            home = self.run(self.store.proxies.get(session.proxy_id))
            if home and home.status is ProxyStatus.ACTIVE:
                resumed = self.run(self.store.sessions.stop_waiting(session_id))
                bound = self.run(self.store.sessions.bound_proxy(session.phone)) or ""
                elsewhere = self.run(self.store.proxies.get(bound))
                assert resumed or (elsewhere and bound != session.proxy_id and len(elsewhere.sessions) == CAP)
            else:
                self.run(self.store.sessions.move(session_id, reason="PROXY_FAILED", from_proxy=session.proxy_id))

    # sessions --------------------------------------------------------------------------------------------------
    @rule(
        phone=st.none() | some_phone,
        number=st.none() | some_proxy,
        additional=st.booleans(),
        rebind=st.booleans(),
        name=st.sampled_from(["", "", "", "shop", "bar"]),
    )
    def reserve(self, phone: str | None, number: int | None, additional: bool, rebind: bool, name: str) -> None:
        seen = self.before
        given = address(number).proxy_id if number is not None else ""
        live = seen.live(phone) if phone else []
        try:
            made = self.run(
                reserve(
                    self.store, session_id=name, phone=phone or "", proxy_id=given, allow_additional=additional,
                    rebind=rebind,
                )
            )  # fmt: skip
        except errors.SessionExists:
            assert name in self.ids
        except errors.PhoneAlreadyRegistered:
            assert live
            assert not additional or len(live) >= PER_PHONE
        except errors.PhoneOnOtherProxy:
            assert {s.proxy_id for s in live} - {given, ""}
        except errors.ProxyNotFound:
            assert given not in seen.proxies
        except errors.ProxyBad:
            assert given
            assert not seen.healthy(given)
        except errors.ProxyFull:
            assert given
            assert not seen.room(given)
        except errors.StickyProxyFull as refused:
            assert not given
            self._check_full(refused)
            assert live or not rebind
        except errors.NoProxyAvailable:
            assert not given
            assert not seen.open_proxies()
        else:
            self._check_place(made.proxy_id, phone=phone, given=given, rebind=rebind)
            assert made.session_id not in self.ids
            assert not live or (additional and len(live) < PER_PHONE)
            self.ids.add(made.session_id)
            self.holders.add(made.session_id)
            self.gone.discard(made.session_id)
            self.by_hand.discard(made.session_id)
            sticky = seen.bound.get(phone or "", "")
            if given or (rebind and seen.healthy(sticky) and made.proxy_id != sticky):
                self.by_hand.add(made.session_id)

    def _check_full(self, refused: errors.StickyProxyFull) -> None:
        assert refused.details
        assert not self.before.room(str(refused.details["proxy"]))

    def _check_place(self, chosen: str, *, phone: str | None, given: str, rebind: bool) -> None:
        seen = self.before
        homes = {s.proxy_id for s in seen.live(phone)} if phone else set()
        healthy_homes = {p for p in homes if seen.healthy(p)}
        sticky = seen.bound.get(phone or "", "")
        if given:
            assert chosen == given
        elif healthy_homes:
            assert chosen in healthy_homes, "an additional session was put on another proxy"
        elif seen.healthy(sticky) and (seen.room(sticky) or not rebind):
            assert chosen == sticky, "a bound phone did not get its own proxy back"
        else:
            loads = seen.open_proxies()
            assert loads[chosen] == min(loads.values()), "not the least loaded"

    @precondition(lambda self: self.open_for_more())
    @rule(phone=some_phone, known=st.booleans(), number=st.none() | some_proxy)
    def reserve_and_connect(self, phone: str, known: bool, number: int | None) -> None:
        """A scan right after provisioning, with or without the phone said beforehand: the usual life."""
        before = set(self.ids)
        self.reserve(phone=phone if known else None, number=number, additional=True, rebind=False, name="")
        for session_id in self.ids - before:
            self.before = self.run(self._look())
            self._connect(session_id, phone, times=1)

    def open_for_more(self) -> bool:
        return bool(self.before.open_proxies())

    @precondition(lambda self: self.ids)
    @rule(number=some_pick, phone=some_phone, as_expected=st.booleans(), times=st.integers(1, 2))
    def connect(self, number: int, phone: str, as_expected: bool, times: int) -> None:
        session_id = self.pick(number)
        was = self.before.sessions.get(session_id)
        self._connect(session_id, was.phone if as_expected and was and was.phone else phone, times=times)

    def _connect(self, session_id: str, phone: str, *, times: int) -> None:
        was = self.before.sessions.get(session_id)
        expected = was.expected_phone or (was.phone if was.linked else "") if was else ""
        at = EventNumber(at=FAR_AWAY)
        try:
            outcomes = [
                self.run(self.store.sessions.bind(session_id, at, ConnectedAs(phone=phone))) for _ in range(times)
            ]
        except errors.SessionNotFound:
            assert was is None
            return
        assert was is not None
        match outcomes[0]:
            case "late":
                assert was.wanted is not Wanted.RUNNING or was.status in ENDED | {Status.STOPPED}
            case "wrong_phone":
                assert expected not in {"", phone}
                self.holders.discard(session_id)
            case "phone_full":
                others = [s for s in self.before.live(phone) if s.session_id != session_id]
                assert len(others) >= PER_PHONE
                self.holders.discard(session_id)
            case "sticky_full":
                assert not self.before.room(self.before.bound[phone])
                self.holders.discard(session_id)
            case "bound" | "moved":
                assert expected in {"", phone}
                if session_id in self.by_hand:
                    self.ordered.add(phone)
        if times > 1 and outcomes[0] != "moved":
            ended = outcomes[0] in {"wrong_phone", "phone_full", "sticky_full"}
            assert outcomes[1] == ("late" if ended else outcomes[0])

    @precondition(lambda self: self.ids)
    @rule(number=some_pick, forget=st.booleans(), times=st.integers(1, 3))
    def delete(self, number: int, forget: bool, times: int) -> None:
        session_id = self.pick(number)
        was = self.before.sessions.get(session_id)
        removed = [self.run(self.store.sessions.delete(session_id, keep_s=60, forget=forget)) for _ in range(times)]
        assert removed == [was is not None] + [False] * (times - 1)
        if was and forget and not [s for s in self.before.live(was.phone) if s.session_id != session_id]:
            self.ordered.add(was.phone)
        self.ids.discard(session_id)
        self.holders.discard(session_id)
        self.gone.add(session_id)

    @precondition(lambda self: self.ids)
    @rule(number=some_pick, only_unscanned=st.booleans())
    def release(self, number: int, only_unscanned: bool) -> None:
        session_id = self.pick(number)
        was = self.before.sessions.get(session_id)
        try:
            self.run(
                self.store.sessions.release(
                    session_id, reason="SCAN_TIMEOUT", status=Status.STOPPED, only_unscanned=only_unscanned
                )
            )
        except errors.SessionNotFound:
            assert was is None
            return
        assert was is not None
        now = self.run(self.store.sessions.get(session_id))
        assert now
        if only_unscanned and was.linked:
            assert now == was, "a linked session was released as unscanned"
        if not only_unscanned:
            assert not now.proxy_id
        if not now.proxy_id:
            self.holders.discard(session_id)

    @precondition(lambda self: self.ids)
    @rule(number=some_pick, towards=some_proxy, times=st.integers(1, 2))
    def move_by_order(self, number: int, towards: int, times: int) -> None:
        session_id, to = self.pick(number), address(towards).proxy_id
        was = self.before.sessions.get(session_id)
        try:
            for _ in range(times):
                self.run(self.store.sessions.move(session_id, reason="ORDERED", to_proxy=to))
        except errors.SessionNotFound:
            assert was is None
        except errors.ProxyNotFound:
            assert to not in self.before.proxies
        except errors.ProxyBad:
            assert not self.before.healthy(to)
        except errors.ProxyFull:
            assert not self.before.room(to)
        except errors.PhoneOnOtherProxy:
            assert was
            assert {s.proxy_id for s in self.before.live(was.phone) if s.session_id != session_id} - {to, ""}
        else:
            assert was
            self.holders.add(session_id)
            if was.proxy_id != to:
                self.by_hand.add(session_id)
                self.ordered.add(was.phone)

    @precondition(lambda self: self.ids)
    @rule(number=some_pick, order=st.sampled_from(["start", "stop", "restart", "delete"]), times=st.integers(1, 2))
    def order(self, number: int, order: str, times: int) -> None:
        session_id = self.pick(number)
        was = self.before.sessions.get(session_id)
        try:
            for _ in range(times):
                self.run(self.store.sessions.order(session_id, order, scan_by=FAR_AWAY))
        except errors.SessionNotFound:
            assert was is None or was.wanted is Wanted.DELETED
        except errors.NoProxyAvailable:
            assert was
            assert not was.proxy_id
            assert not self.before.open_proxies()
        except errors.StickyProxyFull as refused:
            self._check_full(refused)
        else:
            assert was
            if order in {"start", "restart"}:
                self.holders.add(session_id)

    @precondition(lambda self: self.ids)
    @rule(
        number=some_pick,
        effect=st.sampled_from(
            [
                EventEffect(status=Status.LOGGED_OUT, reason="LOGGED_OUT", unlink=True, park=True),
                EventEffect(status=Status.FAILED, reason="REPLACED", park=True),
                EventEffect(status=Status.RECONNECTING, reason="CONNECTION_LOST"),
                EventEffect(status=Status.QR_READY, qr='{"qr":"2@a","expiresAt":1}', qr_ms=60_000),
            ]
        ),
    )
    def report(self, number: int, effect: EventEffect) -> None:
        session_id = self.pick(number)
        was = self.before.sessions.get(session_id)
        number_ = EventNumber(at=FAR_AWAY)
        try:
            self.run(self.store.sessions.apply_event(session_id, number_, kind="DISCONNECTED", effect=effect, data={}))
        except (errors.SessionDeleted, errors.SessionNotFound):
            assert was is None
            return
        now = self.run(self.store.sessions.get(session_id))
        assert was
        assert now
        if was.linked:
            assert now.status is not Status.QR_READY or was.status is Status.QR_READY, "a linked session shows a code"
        if was.status in ENDED | {Status.STOPPED}:
            assert now.status is was.status, "a late event woke an ended session"

    @rule()
    def time_passes(self) -> None:
        self.clock.advance(seconds=1)

    # what must hold after every step ---------------------------------------------------------------------------
    @invariant()
    def everything_is_sound(self) -> None:
        self.run(assert_sound(self.store, cap=CAP))
        seen = self.run(self._look())
        assert set(seen.sessions) == self.ids
        assert {s.session_id for s in seen.sessions.values() if s.proxy_id} == self.holders
        self._check_bindings(seen)
        self._check_phones(seen)
        self.before, self.ordered = seen, set()

    def _check_bindings(self, seen: Seen) -> None:
        for phone in PHONES:
            was, now = self.before.bound.get(phone), seen.bound.get(phone)
            if was is None or was == now:
                continue
            faulty = not self.before.healthy(was) or not seen.healthy(was)
            assert faulty or phone in self.ordered, (
                f"the binding of {phone} changed from {was} to {now} without a reason"
            )
            assert now is None or now in seen.proxies

    def _check_phones(self, seen: Seen) -> None:
        for phone in PHONES:
            running = [
                s
                for s in seen.live(phone)
                if s.linked and s.wanted is Wanted.RUNNING and not s.waiting_for_proxy and seen.healthy(s.proxy_id)
            ]
            assert len({s.proxy_id for s in running}) <= 1, f"{phone} uses several exit addresses: {running}"
            connected = [s for s in running if s.status is Status.CONNECTED]
            assert len(connected) <= PER_PHONE
            assert all(s.proxy_id == seen.bound.get(phone) for s in connected), f"{phone} is not on its own proxy"


def test_no_order_of_calls_breaks_the_registry(valkey: StoreServer) -> None:
    Registry.url = valkey.url
    run_state_machine_as_test(
        Registry,
        settings=settings(
            max_examples=45,
            stateful_step_count=50,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
