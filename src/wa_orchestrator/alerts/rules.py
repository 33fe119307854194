"""What a journal entry means for the operator. Pure.

Only values of a known shape pass (ids, our own codes, numbers): a journal entry may quote a worker, and neither a
secret nor a message may end in an alert.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Literal

from wa_orchestrator.errors import by_code
from wa_orchestrator.model.session import Status
from wa_orchestrator.store.journal import JournalEntry

Act = Literal["raise", "clear", "tell", "moved", "linking", "gone"]
Fact = str | int

_SESSION = re.compile(r"^[A-Za-z0-9_-]{1,64}$")
_PROXY = re.compile(r"^px_[0-9a-f]{12}$")
_PHONE = re.compile(r"^[0-9]{5,20}$")
_BACKUP = re.compile(r"^backup_[0-9]{4}-[0-9]{2}-[0-9]{2}[0-9_-]{0,20}$")
_WEBHOOK = re.compile(r"^wh_[0-9a-f]{4,40}$")
STOCKS = ("freeSlots", "healthyProxies", "connectedSessions", "profiles")
PROBE_KINDS = frozenset({"auth", "refused", "timeout", "unreachable", "protocol", "target"})
# why a session is where it is: our own codes, for which there are words
REASONS = frozenset({
    "AUTH_FAILURE", "BAD_SESSION", "CONNECTED_BUT_DEAF", "CONNECTION_CLOSED", "CONNECTION_LOST", "CRASH_LOOP",
    "CREDENTIALS_UNREADABLE", "FORBIDDEN", "GIVEN_PROXY_FAILED", "LOGGED_OUT", "MULTIDEVICE_MISMATCH",
    "NO_PING", "NO_PROXY_AVAILABLE", "PHONE_ALREADY_REGISTERED", "PHONE_ON_OTHER_PROXY", "PROXY_ERROR",
    "PROXY_FAILED", "RATE_LIMITED", "REFUSED", "REPLACED", "RESTART_REQUIRED", "RESTRICTED", "STICKY_PROXY_FULL",
    "STUCK_CONNECTING", "TIMED_OUT", "TLS_ERROR", "UNAVAILABLE", "UPGRADE_FAILED", "VERSION_OUTDATED",
    "WORKER_DIED", "WORKER_SETTINGS", "WRONG_PHONE",
})  # fmt: skip
_MEANS: dict[str, Act] = {
    Status.CONNECTED: "clear", Status.PENDING: "linking", Status.QR_READY: "linking", Status.STOPPED: "gone",
}  # fmt: skip
_TROUBLES: dict[str, str] = {
    Status.RECONNECTING: "disconnected", Status.DISCONNECTED: "disconnected", Status.UNHEALTHY: "unhealthy",
    Status.LOGGED_OUT: "logged_out",
}  # fmt: skip
_FAILED_AS = {"REPLACED": "replaced", "FORBIDDEN": "banned", "RESTRICTED": "banned", "CRASH_LOOP": "crash_loop"}
# told by session.waiting, which also knows the proxy
_WAITING = frozenset({"NO_PROXY_AVAILABLE", "GIVEN_PROXY_FAILED"})


@dataclass(frozen=True, kw_only=True)
class Signal:
    """`subject` is what it is about: session:<id>, proxy:<id>, stock:<name>, lane:<phone>, backup:<name>."""

    act: Act
    subject: str
    kind: str = ""
    proxy: str = ""  # the proxy whose failure is behind it
    facts: dict[str, Fact] = field(default_factory=dict)


def meaning_of(entry: JournalEntry) -> Signal | None:
    """None: nothing an operator must be told of."""
    rule = _RULES.get(entry.type)
    return rule(entry) if rule else None


# sessions --------------------------------------------------------------------------------------------------------
def _session(entry: JournalEntry) -> str:
    return f"session:{entry.session_id}" if _SESSION.fullmatch(entry.session_id) else ""


def _status(entry: JournalEntry) -> Signal | None:
    subject, status, reason = _session(entry), str(entry.data.get("status")), _reason(entry.data)
    if not subject:
        return None
    if status in _MEANS:
        return Signal(act=_MEANS[status], subject=subject)
    kind = _FAILED_AS.get(reason, "failed") if status == Status.FAILED else _TROUBLES.get(status)
    if kind is None or (kind == "disconnected" and reason in _WAITING):
        return None
    return Signal(act="raise", subject=subject, kind=kind, facts={"reason": reason} if reason else {})


def _waiting(entry: JournalEntry) -> Signal | None:
    subject = _session(entry)
    if not subject:
        return None
    reason = _reason(entry.data)
    return Signal(act="raise", subject=subject, kind="no_proxy", proxy=_proxy(entry.data, "proxy"),
                  facts={"reason": reason} if reason else {})  # fmt: skip


def _moved(entry: JournalEntry) -> Signal | None:
    """Only moves away from a fault; draining and going home are the operator's and the binding's own doing."""
    subject, was = _session(entry), _proxy(entry.data, "from")
    if not subject or not was or entry.data.get("reason") != "PROXY_FAILED":
        return None
    # a session that is not meant to run only changes its slot: nobody waits for it to come back
    idle: dict[str, Fact] = {"idle": 1} if entry.data.get("running") is False else {}
    return Signal(act="moved", subject=subject, kind="failover", proxy=was, facts=idle)


def _created(entry: JournalEntry) -> Signal | None:
    subject = _session(entry)
    return Signal(act="linking", subject=subject) if subject else None


def _deleted(entry: JournalEntry) -> Signal | None:
    subject = _session(entry)
    return Signal(act="gone", subject=subject) if subject else None


# proxies, stock, lanes -------------------------------------------------------------------------------------------
def _about_proxy(act: Act) -> Callable[[JournalEntry], Signal | None]:
    def rule(entry: JournalEntry) -> Signal | None:
        proxy = _proxy(entry.data, "proxy")
        if not proxy:
            return None
        kind = entry.data.get("kind")
        facts: dict[str, Fact] = {"why": str(kind)} if isinstance(kind, str) and kind in PROBE_KINDS else {}
        if (sessions := _number(entry.data, "sessions")) is not None:
            facts["sessions"] = sessions
        return Signal(act=act, subject=f"proxy:{proxy}", kind="proxy_bad", proxy=proxy, facts=facts)

    return rule


def _exit_address(entry: JournalEntry) -> Signal | None:
    proxy = _proxy(entry.data, "proxy")
    if not proxy:
        return None
    facts: dict[str, Fact] = {name: found for name in ("was", "now") if (found := _address(entry.data, name))}
    return Signal(act="tell", subject=f"proxy:{proxy}", kind="exit_ip_changed", facts=facts)


def _stock(act: Act) -> Callable[[JournalEntry], Signal | None]:
    def rule(entry: JournalEntry) -> Signal | None:
        stock = entry.data.get("stock")
        if stock not in STOCKS:
            return None
        facts = {name: value for name in ("count", "threshold") if (value := _number(entry.data, name)) is not None}
        return Signal(act=act, subject=f"stock:{stock}", kind="low_stock", facts=dict(facts))

    return rule


def _lane(act: Act, kind: str) -> Callable[[JournalEntry], Signal | None]:
    def rule(entry: JournalEntry) -> Signal | None:
        phone = str(entry.data.get("phone", ""))
        if not _PHONE.fullmatch(phone):
            return None
        facts: dict[str, Fact] = {}
        if _SESSION.fullmatch(entry.session_id):
            facts["session"] = entry.session_id
        if reason := _reason(entry.data):
            facts["reason"] = reason
        for name in ("until", "messages", "failures"):
            if (value := _number(entry.data, name)) is not None:
                facts[name] = value
        return Signal(act=act, subject=f"lane:{phone}", kind=kind, facts=facts)

    return rule


# backups, webhooks -----------------------------------------------------------------------------------------------
def _backup(kind: str) -> Callable[[JournalEntry], Signal | None]:
    def rule(entry: JournalEntry) -> Signal | None:
        name, code = str(entry.data.get("backup", "")), entry.data.get("code")
        facts: dict[str, Fact] = {}
        if (sessions := _number(entry.data, "sessions")) is not None:
            facts["sessions"] = sessions
        if isinstance(code, str) and code in by_code():
            facts["code"] = code
        # each is news of its own; a failed one without a name is folded with the next
        return Signal(act="tell", subject=f"backup:{name if _BACKUP.fullmatch(name) else ''}", kind=kind, facts=facts)

    return rule


def _webhook(act: Act, kind: str) -> Callable[[JournalEntry], Signal | None]:
    def rule(entry: JournalEntry) -> Signal | None:
        name = str(entry.data.get("webhookId", ""))
        return Signal(act=act, subject=f"webhook:{name}", kind=kind) if _WEBHOOK.fullmatch(name) else None

    return rule


_RULES: dict[str, Callable[[JournalEntry], Signal | None]] = {
    "session.created": _created,
    "session.status": _status,
    "session.waiting": _waiting,
    "session.moved": _moved,
    "session.deleted": _deleted,
    "proxy.bad": _about_proxy("raise"),
    "proxy.recovered": _about_proxy("clear"),
    "proxy.removed": _about_proxy("gone"),
    "proxy.exit_ip_changed": _exit_address,
    "inventory.low": _stock("raise"),
    "inventory.enough": _stock("clear"),
    "lane.blocked": _lane("tell", "lane_blocked"),
    "lane.flood": _lane("tell", "lane_flood"),
    "lane.slowed": _lane("raise", "lane_slowed"),
    "lane.recovered": _lane("clear", "lane_slowed"),
    "backup.created": _backup("backup_done"),
    "backup.failed": _backup("backup_failed"),
    "restore.done": _backup("restore_done"),
    "restore.failed": _backup("restore_failed"),
    "webhook.failing": _webhook("raise", "webhook_failing"),
    "webhook.recovered": _webhook("clear", "webhook_failing"),
    "webhook.deleted": _webhook("gone", "webhook_failing"),
    "webhook.dead": _webhook("tell", "webhook_dead"),
    "webhook.disabled": _webhook("tell", "webhook_disabled"),
}


# shapes ----------------------------------------------------------------------------------------------------------
def _reason(data: Mapping[str, Any]) -> str:
    text = data.get("reason")
    return text if isinstance(text, str) and text in REASONS else ""


def _proxy(data: Mapping[str, Any], name: str) -> str:
    text = data.get(name)
    return text if isinstance(text, str) and _PROXY.fullmatch(text) else ""


def _address(data: Mapping[str, Any], name: str) -> str:
    try:
        return str(ip_address(str(data.get(name))))
    except ValueError:
        return ""


def _number(data: Mapping[str, Any], name: str) -> int | None:
    value = data.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**53:
        return None
    return int(value)
