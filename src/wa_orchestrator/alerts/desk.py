"""Decides what is told and when: waits out short troubles, folds repeats, gathers many into one, says recoveries.

Pure: a mapping of small records in, the changed records and the notices out. Time is that of the journal, so the same
journal gives the same alerts, however late and in however many steps it is read.

    l:<subject>         a session that is being linked
    w:<subject>         a trouble that is waited out
    s:<subject>         a trouble that stands; of several the worst
    g:<group>           things of one kind that are gathered into one message
    f:<kind>|<subject>  told a while ago: repeats are counted until its end
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.alerts.kinds import KINDS, Severity
from wa_orchestrator.alerts.notice import NAMED, Notice, State
from wa_orchestrator.alerts.rules import Signal

Record = dict[str, Any]

_STATES: dict[str, State] = {"raise": "raised", "proxy": "raised", "tell": "told", "again": "told", "clear": "resolved"}
_BACK_TO_LINKING = frozenset({"disconnected", "unhealthy"})  # over when a session shows a code again


@dataclass(frozen=True, kw_only=True)
class Patience:
    grace_ms: int
    fold_ms: int
    digest_ms: int


class Desk:
    def __init__(self, records: Mapping[str, Record], patience: Patience, *, version: int = 0) -> None:
        self.version = version
        self._patience = patience
        # what a newer version kept in mind is not ours to decide
        self._records = {field: record for field, record in records.items() if _known(field, record)}
        # how many stand, by sort and by the message that told of them
        self._standing = Counter(_told_with(field, record) for field, record in self._records.items())
        self._before: dict[str, Record | None] = {}
        self._notices: list[Notice] = []
        self._soonest = -math.inf  # nothing is due before; may be earlier than true

    # what the outside sees -------------------------------------------------------------------------------------
    def hear(self, signal: Signal, at: int) -> None:
        self.tick(at)
        match signal.act:
            case "raise":
                self._raise(signal, at)
            case "clear":
                self._clear(signal.subject, at, facts=dict(signal.facts))
            case "tell":
                self._tell(signal.kind, signal.subject, at, facts=dict(signal.facts))
            case "moved":
                self._moved(signal, at)
            case "linking":
                self._linking(signal.subject)
            case "gone":
                self._gone(signal.subject, at)

    def tick(self, now: int) -> None:
        """Everything whose time has come."""
        while self._soonest <= now:
            dues = {field: self._due(field) for field in self._records}
            ripe = sorted((due, field) for field, due in dues.items() if due <= now)
            self._soonest = min(dues.values(), default=math.inf)
            for due, field in ripe:
                if field in self._records and self._due(field) <= now:
                    self._ripen(field, int(due))

    def take(self) -> tuple[dict[str, Record], list[str], list[Notice]]:
        """(records to write, records to drop, notices) since the last time."""
        written = {field: self._records[field] for field in self._before if field in self._records}
        dropped = [field for field, was in self._before.items() if field not in self._records and was is not None]
        notices, self._notices, self._before = self._notices, [], {}
        return written, dropped, notices

    def subjects(self) -> set[str]:
        """Whom the desk keeps in mind."""
        return {field[2:] for field in self._records if field[:2] in {"l:", "w:", "s:"}}

    # records ---------------------------------------------------------------------------------------------------
    def _get(self, field: str) -> Record | None:
        return self._records.get(field)

    def _put(self, field: str, record: Record) -> None:
        was = self._records.get(field)
        self._before.setdefault(field, was)
        if was is not None:
            self._standing[_told_with(field, was)] -= 1
        self._standing[_told_with(field, record)] += 1
        self._records[field] = record
        self._soonest = min(self._soonest, self._due(field))

    def _drop(self, field: str) -> Record | None:
        if field not in self._records:
            return None
        self._before.setdefault(field, self._records[field])
        self._standing[_told_with(field, self._records[field])] -= 1
        return self._records.pop(field)

    # troubles --------------------------------------------------------------------------------------------------
    def _raise(self, signal: Signal, at: int) -> None:
        subject, kind, stands = signal.subject, KINDS[signal.kind], self._get(f"s:{signal.subject}")
        if stands and stands["kind"] == kind.name:
            self._put(f"s:{subject}", {**stands, "facts": dict(signal.facts), "ends": 0})
            return
        if stands and KINDS[stands["kind"]].rank > kind.rank:
            return
        if kind.patient:
            if not self._get(f"w:{subject}"):
                due = at + self._patience.grace_ms
                self._put(f"w:{subject}", {"kind": kind.name, "since": at, "due": due, "facts": dict(signal.facts)})
            return
        self._drop(f"w:{subject}")
        self._raise_now(subject, kind.name, at, since=at, proxy=signal.proxy, facts=dict(signal.facts))

    def _raise_now(self, subject: str, kind: str, at: int, *, since: int, proxy: str = "", facts: Record) -> None:
        was = self._get(f"s:{subject}")
        if was and KINDS[was["kind"]].patient:
            self._take_out(was.get("group", ""), subject)
        folded = self._get(f"f:{kind}|{subject}")
        if folded:
            self._put(f"f:{kind}|{subject}", {**folded, "n": folded["n"] + 1})
            self._put(f"s:{subject}", {"kind": kind, "since": since, "muted": True, "facts": facts})
            return
        group = f"proxy:{proxy}" if proxy else f"raise:{kind}"
        self._put(f"s:{subject}", {"kind": kind, "since": since, "group": group, "proxy": proxy, "facts": facts})
        self._gather(group, subject, {"kind": kind, "since": since, "facts": facts}, at)

    def _moved(self, signal: Signal, at: int) -> None:
        subject, group = signal.subject, f"proxy:{signal.proxy}"
        idle = bool(signal.facts.get("idle"))
        self._gather(group, subject, {"kind": "failover", "since": at, "facts": {}}, at)
        if waits := self._get(f"w:{subject}"):
            # it starts anew elsewhere, so the time to get there begins anew
            self._put(f"w:{subject}", {**waits, "due": at + self._patience.grace_ms})
        stands = self._get(f"s:{subject}")
        told_worse = stands and stands["kind"] != "failover" and stands.get("group") != group
        if idle or self._get(f"l:{subject}") or told_worse:
            return
        self._put(f"s:{subject}", {"kind": "failover", "since": at, "group": group, "proxy": signal.proxy})

    def _clear(self, subject: str, at: int, *, facts: Record) -> None:
        linked_now = self._drop(f"l:{subject}")
        self._drop(f"w:{subject}")
        stands = self._get(f"s:{subject}")
        if stands is None:
            if linked_now is not None:
                self._tell("connected", subject, at)
        elif KINDS[stands["kind"]].steady and not self._in_tray(stands, subject):
            self._put(f"s:{subject}", {**stands, "facts": facts, "ends": at + 2 * self._patience.grace_ms})
        else:
            self._end(subject, at)

    def _end(self, subject: str, at: int) -> None:
        stood = self._drop(f"s:{subject}")
        if stood is None or stood.get("muted"):
            return
        kind, proxy = stood["kind"], stood.get("proxy", "")
        if self._in_tray(stood, subject):
            if KINDS[kind].patient:
                self._take_out(stood["group"], subject)
            else:
                group = self._records[f"g:{stood['group']}"]
                group["items"][subject] = {**group["items"][subject], "back": True}
                self._put(f"g:{stood['group']}", group)
            return
        item = {"kind": kind, "since": stood["since"], "facts": stood.get("facts", {}), "batch": stood.get("batch", "")}
        # sessions that lost one proxy come back together; the proxy itself is another matter
        together = proxy if proxy and subject.startswith("session:") else ""
        self._gather(f"clear:proxy:{together}" if together else f"clear:{kind}", subject, item, at)

    def _linking(self, subject: str) -> None:
        if self._get(f"l:{subject}") is None:
            self._put(f"l:{subject}", {})
        self._drop(f"w:{subject}")
        stands = self._get(f"s:{subject}")
        if stands and stands["kind"] in _BACK_TO_LINKING:
            self._drop(f"s:{subject}")
            self._take_out(stands.get("group", ""), subject)

    def _gone(self, subject: str, at: int) -> None:
        """The operator ended it: nothing is said, but the journal shows that the alert is over."""
        self._drop(f"l:{subject}")
        self._drop(f"w:{subject}")
        stood = self._drop(f"s:{subject}")
        known = stood and stood.get("batch")
        for field in [field for field in self._records if field.startswith(("g:raise:", "g:proxy:", "g:clear:"))]:
            self._take_out(field[2:], subject)
        if stood and known:
            kind = KINDS[stood["kind"]]
            self._notices.append(
                Notice(id=self._next_id(), at=at, state="resolved", kind=kind.name, severity=kind.severity,
                       subjects=[subject], count=1, since=stood["since"], quiet=True)
            )  # fmt: skip

    def _tell(self, kind: str, subject: str, at: int, *, facts: Record | None = None) -> None:
        folded = self._get(f"f:{kind}|{subject}")
        if folded:
            self._put(f"f:{kind}|{subject}", {**folded, "n": folded["n"] + 1})
        else:
            self._gather(f"tell:{kind}", subject, {"kind": kind, "since": at, "facts": facts or {}}, at)

    # gathering -------------------------------------------------------------------------------------------------
    def _gather(self, group: str, subject: str, item: Record, at: int) -> None:
        now = self._get(f"g:{group}") or {"first": at, "last": at, "items": {}}
        again = now["items"].get(subject)
        if again and group.startswith("tell:"):
            item = {**item, "times": again.get("times", 0) + 1}
        now["items"][subject] = item  # in its place: a copy for each of thousands would take longer than all the rest
        self._put(f"g:{group}", {**now, "last": max(at, now["last"])})

    def _in_tray(self, stands: Record, subject: str) -> bool:
        group = self._get(f"g:{stands.get('group', '')}")
        return bool(group and group["items"].get(subject, {}).get("kind") == stands["kind"])

    def _take_out(self, group: str, subject: str) -> None:
        now = self._get(f"g:{group}")
        if now is None or subject not in now["items"]:
            return
        del now["items"][subject]
        if now["items"]:
            self._put(f"g:{group}", now)
        else:
            self._drop(f"g:{group}")

    # time ------------------------------------------------------------------------------------------------------
    def _due(self, field: str) -> float:
        record = self._records[field]
        match field[:2]:
            case "w:":
                return float(record["due"])
            case "s:":
                return float(record.get("ends") or math.inf)
            case "f:":
                return float(record["until"])
            case "g:":
                return self._ready_at(field[2:], record)
        return math.inf

    def _ready_at(self, group: str, record: Record) -> float:
        """A group is told when nothing was added for a moment, and soon in any case."""
        moment = self._patience.digest_ms
        first, last = float(record["first"]), float(record["last"])
        if group.startswith("proxy:"):
            sessions = sum(name.startswith("session:") for name in record["items"])
            known = record["items"].get(group, {}).get("facts", {}).get("sessions")
            if known is not None and sessions >= known:
                return last
            return min(last + 3 * moment, first + 12 * moment)
        if group.startswith("clear:") and self._siblings(record):
            return first + 24 * moment  # the others of the same message are on their way
        return min(last + moment, first + 6 * moment)

    def _siblings(self, group: Record) -> int:
        """How many stand that were told in the same messages as the group's, and are of their sort."""
        batches = {item.get("batch") for item in group["items"].values()} - {"", None}
        sort = next(iter(group["items"])).partition(":")[0]
        return sum(self._standing[sort, batch] for batch in batches)

    def _ripen(self, field: str, at: int) -> None:
        match field[:2]:
            case "w:":
                waited = self._drop(field)
                stands = self._get(f"s:{field[2:]}")
                if waited and not (stands and KINDS[stands["kind"]].rank > KINDS[waited["kind"]].rank):
                    self._raise_now(field[2:], waited["kind"], at, since=waited["since"], facts=waited["facts"])
            case "s:":
                self._end(field[2:], at)
            case "f:":
                self._unfold(field, at)
            case "g:":
                self._tell_group(field[2:], at)

    def _unfold(self, field: str, at: int) -> None:
        """The end of folding: repeats are told in one, with how things stand now."""
        folded = self._drop(field)
        if not folded or not folded["n"]:
            return
        kind, _, subject = field[2:].partition("|")
        stands = self._get(f"s:{subject}")
        item = {"kind": kind, "since": at, "facts": {}, "times": folded["n"]}
        if stands and stands["kind"] == kind and stands.get("muted"):
            item |= {"since": stands["since"], "facts": stands.get("facts", {})}
            self._put(f"s:{subject}", {**stands, "muted": False, "group": f"raise:{kind}"})
            self._gather(f"raise:{kind}", subject, item, at)
        else:
            self._gather(f"tell:{kind}" if folded.get("news") else f"again:{kind}", subject, item, at)

    # telling ---------------------------------------------------------------------------------------------------
    def _next_id(self) -> str:
        """Unique: a version is written once."""
        return f"al_{self.version + 1}_{len(self._notices) + 1}"

    def _tell_group(self, group: str, at: int) -> None:
        record = self._records[f"g:{group}"]
        act, _, rest = group.partition(":")
        items: dict[str, Record] = record["items"]
        batch = self._next_id()
        notice = _proxy_notice(batch, at, rest, items) if act == "proxy" else _notice(batch, at, act, items)
        if act == "clear" and (left := self._siblings(record)):
            notice.facts["left"] = left
        if rest.startswith("proxy:"):
            notice.facts["proxy"] = rest.removeprefix("proxy:")
        self._drop(f"g:{group}")
        for subject, item in items.items():
            stands = self._get(f"s:{subject}")
            if stands and stands["kind"] == item["kind"] and stands.get("group") == group:
                self._put(f"s:{subject}", {**{k: v for k, v in stands.items() if k != "group"}, "batch": batch})
            if act != "clear" and item["kind"] != "failover":
                until = at + self._patience.fold_ms
                self._put(f"f:{item['kind']}|{subject}", {"until": until, "n": 0, "news": act == "tell"})
        self._notices.append(notice)


def _told_with(field: str, record: Record) -> tuple[str, str]:
    """The sort of a subject (session, proxy …) and the message that told of it; empty for what does not stand."""
    sort, _, _ = field[2:].partition(":")
    return (sort, record.get("batch") or "") if field.startswith("s:") else ("", "")


def _known(field: str, record: Record) -> bool:
    match field[:2]:
        case "w:" | "s:":
            return record.get("kind") in KINDS
        case "f:":
            return field[2:].partition("|")[0] in KINDS
        case "g:":
            return all(item.get("kind") in KINDS for item in record["items"].values())
    return True


def _notice(batch: str, at: int, act: str, items: dict[str, Record]) -> Notice:
    # what ends together may have begun in several ways; the worst of them names it
    kind = max((KINDS[item["kind"]] for item in items.values()), key=lambda kind: kind.rank)
    facts: Record = {}
    if len(items) == 1:
        facts.update(next(iter(items.values()))["facts"])
    else:
        reasons = Counter(item["facts"].get("reason", "") for item in items.values())
        reason, number = reasons.most_common(1)[0]
        if reason and number == len(items):
            facts["reason"] = reason
    times = sum(item.get("times", 0) for item in items.values())
    if times:
        facts["times"] = times
    if back := sum(bool(item.get("back")) for item in items.values()):
        facts["back"] = back
    if act == "again":
        facts["again"] = 1
    return _made(batch, at, _STATES[act], kind.name, kind.severity, items, facts)


def _proxy_notice(batch: str, at: int, proxy: str, items: dict[str, Record]) -> Notice:
    """What the failure of one proxy did: itself, who was moved, who waits."""
    own = items.get(f"proxy:{proxy}")
    sessions = [item for name, item in items.items() if name.startswith("session:")]
    waiting = sum(item["kind"] == "no_proxy" for item in sessions)
    facts: Record = {"proxy": proxy, "moved": len(sessions) - waiting, "waiting": waiting}
    facts |= {"back": sum(bool(item.get("back")) for item in sessions)}
    if own:
        facts |= own["facts"] | ({"recovered": 1} if own.get("back") else {})
    kind = "proxy_bad" if own else "no_proxy" if waiting else "failover"
    severity: Severity = "critical" if waiting else "warning"
    return _made(batch, at, "raised", kind, severity, items, facts)


def _made(
    batch: str, at: int, state: State, kind: str, severity: Severity, items: dict[str, Record], facts: Record
) -> Notice:
    subjects = sorted(items, key=_natural)
    since = min(item["since"] for item in items.values())
    return Notice(id=batch, at=at, state=state, kind=kind, severity=severity, subjects=subjects[:NAMED],
                  count=len(items), since=since, facts=facts)  # fmt: skip


def _natural(text: str) -> list[tuple[int, str]]:
    """worker_2 before worker_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", text) if part]
