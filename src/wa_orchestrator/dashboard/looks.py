"""How sessions look in lists: what is shown of each, searched, filtered, sorted and counted. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import phonenumbers

from wa_orchestrator.model.proxy import Proxy, ProxyStatus
from wa_orchestrator.model.session import Status, Wanted
from wa_orchestrator.model.trust import Trust, trust_of
from wa_orchestrator.store.rows import SessionRow

PAGE_SIZE = 50

# good: works · wait: on its way by itself · warn: trouble, being handled · bad: needs a person · off: on purpose
TONES = {
    Status.CONNECTED: "good",
    Status.PENDING: "wait",
    Status.QR_READY: "wait",
    Status.RECONNECTING: "wait",
    Status.DISCONNECTED: "warn",
    Status.UNHEALTHY: "warn",
    Status.FAILED: "bad",
    Status.LOGGED_OUT: "bad",
    Status.STOPPED: "off",
}
GROUPS = {
    "connected": frozenset({"good"}),
    "waiting": frozenset({"wait"}),
    "trouble": frozenset({"warn", "bad"}),
    "stopped": frozenset({"off"}),
}
_WORST_FIRST = {"bad": 0, "warn": 1, "wait": 2, "good": 3, "off": 4}
_TRUST_ORDER = {"cold": 0, "warm": 1, "hot": 2}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A session as a list shows it."""

    id: str
    label: str
    phone: str
    status: Status
    tone: str
    reason: str
    wanted: Wanted
    linked: bool
    proxy: Proxy | None
    trust: Trust
    sent: int
    limit: int | None
    waiting: int
    under_way: int
    last_ping: int | None
    connected_at: int | None
    first_connected_at: int | None
    blocked_until: int | None
    block_reason: str
    slow_factor: float | None
    failures: int
    paused_until: int | None
    opens_at: int | None
    restarts: int

    @property
    def name(self) -> str:
        return self.label or self.id

    @property
    def full(self) -> bool:
        """Today's limit is used up."""
        return self.limit is not None and self.sent >= self.limit

    @property
    def why_slow(self) -> str:
        """The strongest reason why it sends less than it could; empty: nothing holds it back."""
        held = (
            (self.blocked_until, "blocked"),
            (self.full, "full"),
            (self.opens_at, "closed"),
            (self.paused_until, "paused"),
            (self.slow_factor, "slowed"),
        )
        return next((code for holds, code in held if holds), "")


def seen(row: SessionRow, proxies: dict[str, Proxy], *, now_ms: int) -> Seen:
    session, lane = row.session, row.lane

    def still(name: str) -> int | None:
        """A moment that is not over yet."""
        value = int(float(lane.get(name, 0)))
        return value if value > now_ms else None

    trust = trust_of(row.first_connected_at, now_ms)
    planned = "dayKey" in lane
    daily = (int(lane["daily"]) if "daily" in lane else None) if planned else trust.daily_limit
    return Seen(
        id=session.session_id, label=session.label, phone=session.phone, status=session.status,
        tone=TONES[session.status], reason=session.reason, wanted=session.wanted, linked=session.linked,
        proxy=proxies.get(session.proxy_id), trust=trust,
        sent=int(lane.get("dayCount", 0)) if still("dayEndsAt") else 0, limit=daily,
        waiting=row.waiting, under_way=row.under_way, last_ping=session.last_ping,
        connected_at=session.connected_at, first_connected_at=row.first_connected_at,
        blocked_until=still("blockedUntil"), block_reason=lane.get("blockReason", ""),
        slow_factor=float(lane["slow"]) if "slow" in lane else None, failures=int(lane.get("failures", 0)),
        paused_until=still("pausedUntil"), opens_at=still("opensAt"), restarts=session.restarts,
    )  # fmt: skip


# lists -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Question:
    """What somebody wants to see of a list."""

    search: str = ""
    group: str = ""
    sort: str = "name"
    descending: bool = False
    page: int = 1


@dataclass(frozen=True)
class Page:
    rows: list[Seen]
    total: int
    page: int
    pages: int

    @property
    def first(self) -> int:
        return (self.page - 1) * PAGE_SIZE + 1 if self.total else 0

    @property
    def last(self) -> int:
        return min(self.page * PAGE_SIZE, self.total)


_SORTS: dict[str, Callable[[Seen], Any]] = {
    "name": lambda s: natural(s.name),
    "state": lambda s: (_WORST_FIRST[s.tone], s.status.value),
    "proxy": lambda s: (s.proxy.address.host, s.proxy.address.port) if s.proxy else ("", 0),
    "trust": lambda s: (_TRUST_ORDER[s.trust.level], s.first_connected_at or 0),
    "today": lambda s: s.sent,
    "ping": lambda s: s.last_ping or 0,
}
SORTS = tuple(_SORTS)


def read_question(values: dict[str, str]) -> Question:
    """From an address; anything odd is passed over."""
    sort = values.get("sort", "")
    page = values.get("page", "")
    return Question(
        search=values.get("search", "")[:200],
        group=values.get("group", "") if values.get("group") in GROUPS else "",
        sort=sort.removeprefix("-") if sort.removeprefix("-") in _SORTS else "name",
        descending=sort.startswith("-"),
        page=max(1, int(page)) if page.isascii() and page.isdigit() and len(page) < 7 else 1,
    )


def select(rows: Sequence[Seen], question: Question) -> Page:
    """Searched, filtered, sorted; one page of it."""
    words = [word.lower() for word in question.search.split()]
    tones = GROUPS.get(question.group)
    found = [row for row in rows if (tones is None or row.tone in tones) and all(w in _text(row) for w in words)]
    found.sort(key=lambda s: natural(s.id))  # the order among equals
    found.sort(key=_SORTS[question.sort], reverse=question.descending)
    pages = max(1, -(-len(found) // PAGE_SIZE))
    page = min(question.page, pages)
    return Page(found[(page - 1) * PAGE_SIZE : page * PAGE_SIZE], len(found), page, pages)


def _text(row: Seen) -> str:
    place = f"{row.proxy.address.host}:{row.proxy.address.port}" if row.proxy else ""
    return f"{row.id} {row.label} {row.phone} +{row.phone} {row.reason} {row.status} {place}".lower()


def natural(text: str) -> list[tuple[int, int, str]]:
    """worker_2 before worker_10."""
    parts = re.split(r"([0-9]+)", text.lower())
    return [(0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part) for part in parts if part]


# numbers ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class Glance:
    """Numbers at a glance."""

    total: int
    connected: int
    waiting: int
    to_scan: int
    trouble: int
    stopped: int
    sent_today: int
    failed_today: int
    queue: int
    under_way: int
    free_slots: int
    slots: int
    proxies: int
    bad_proxies: int


def glance(rows: Sequence[Seen], proxies: Sequence[Proxy], messages: dict[str, Any], *, slots_per_proxy: int) -> Glance:
    by_phone = {row.phone: row for row in rows if row.phone}  # sessions of one phone share its queue
    healthy = [p for p in proxies if p.status is ProxyStatus.ACTIVE and not p.draining]
    tones = [row.tone for row in rows]
    return Glance(
        total=len(rows),
        connected=tones.count("good"),
        waiting=tones.count("wait"),
        to_scan=sum(row.status is Status.QR_READY for row in rows),
        trouble=tones.count("warn") + tones.count("bad"),
        stopped=tones.count("off"),
        sent_today=int(messages["today"].get("sent", 0)),
        failed_today=int(messages["today"].get("failed", 0)),
        queue=sum(row.waiting for row in by_phone.values()) + int(messages["unrouted"]),
        under_way=sum(row.under_way for row in by_phone.values()),
        free_slots=sum(max(0, slots_per_proxy - len(p.sessions)) for p in healthy),
        slots=len(healthy) * slots_per_proxy,
        proxies=len(proxies),
        bad_proxies=len(proxies) - len(healthy),
    )


@lru_cache(maxsize=16384)
def shown_phone(digits: str) -> str:
    """+972 50-123-4567; what is no number stays as it is."""
    try:
        number = phonenumbers.parse(f"+{digits}")
    except phonenumbers.NumberParseException:
        return digits
    return phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.INTERNATIONAL)
