"""The words of alerts, in Hebrew and English. Pure; plain text, and the form that Telegram takes."""

from __future__ import annotations

import html
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.alerts.rules import PROBE_KINDS, REASONS
from wa_orchestrator.alerts.words import WORDS
from wa_orchestrator.dashboard.words import Words
from wa_orchestrator.errors import by_code

_NAMES_SHOWN = 10
_LONGEST_NAME = 60
_LONGEST = 1500  # of one notice: a message of 4096 holds at least two


class Texts:
    def __init__(self, language: str, timezone: str) -> None:
        self._words = WORDS[language]
        self._right_to_left = language == "he"
        self._reasons = Words(language)
        self._zone = ZoneInfo(timezone)

    def title(self, notice: Notice) -> str:
        """One line: what happened to whom."""
        return f"{notice.icon} {self._title(notice)}"

    def lines(self, notice: Notice) -> list[str]:
        """The title and what else is known, a line each."""
        found = [self.title(notice), *self._details(notice)]
        return [line[:_LONGEST] for line in found if line]

    def plain(self, notice: Notice) -> str:
        return "\n".join(self.lines(notice))[:_LONGEST]

    def as_html(self, notice: Notice) -> str:
        """For Telegram: the title in bold, everything escaped."""
        title, *rest = (html.escape(line, quote=False) for line in self.lines(notice))
        return "\n".join([f"<b>{title}</b>", *rest])

    def say(self, key: str, **values: Any) -> str:
        return self._words[key].format(**{name: self._isolated(value) for name, value in values.items()})

    # parts -----------------------------------------------------------------------------------------------------
    def _title(self, notice: Notice) -> str:
        facts = notice.facts
        if notice.kind == "low_stock" and notice.count == 1:
            what = self._name(notice, notice.subjects[0])
            return self._of(notice, "title.low_stock", what=what, n=facts.get("count", 0))
        if "proxy" in facts:
            return self._proxy_title(notice)
        return self._of(notice, f"title.{notice.kind}", name=self._name(notice, notice.subjects[0]), n=notice.count)

    def _of(self, notice: Notice, key: str, **values: Any) -> str:
        if notice.state == "resolved":
            key = f"{key}.over" if f"{key}.over.one" in self._words else "title.over"
            values.setdefault("name", self._name(notice, notice.subjects[0]))
        number = "one" if notice.count == 1 else "many"
        return self.say(f"{key}.{number}", **{"n": notice.count, **values})

    def _proxy_title(self, notice: Notice) -> str:
        facts, place = notice.facts, self._name(notice, f"proxy:{notice.facts['proxy']}")
        if notice.state == "resolved":
            return self.say("title.back.one" if notice.count == 1 else "title.back.many", n=notice.count,
                            name=self._name(notice, notice.subjects[0]), place=place)  # fmt: skip
        parts = [self.say("proxy.failed" if notice.kind == "proxy_bad" else "proxy.was", place=place)]
        for name in ("moved", "waiting"):
            if number := facts.get(name):
                parts.append(self.say(f"proxy.{name}.{'one' if number == 1 else 'many'}", n=number))
        if notice.kind == "proxy_bad" and len(parts) == 1:
            parts.append(self.say("proxy.unused"))
        return f"{parts[0]}: {', '.join(parts[1:])}"

    def _details(self, notice: Notice) -> list[str]:
        facts = notice.facts
        found: list[str] = []
        if reason := self._reason(facts):
            found.append(self.say("line.reason", reason=reason))
        if facts.get("back"):
            all_back = facts["back"] >= notice.count - sum(s.startswith("proxy:") for s in notice.subjects)
            found.append(self.say("line.all_back") if all_back else self.say("line.back", n=facts["back"]))
        if facts.get("recovered"):
            found.append(self.say("line.proxy_back"))
        if facts.get("left"):
            found.append(self.say("line.left", n=facts["left"]))
        if facts.get("times"):
            found.append(self.say("line.again" if facts.get("again") else "line.times", n=facts["times"]))
        if notice.kind == "lane_blocked" and facts.get("until"):
            found.append(self.say("line.until", time=self._time(int(facts["until"]))))
        if notice.kind == "lane_flood" and facts.get("messages"):
            found.append(self.say("line.messages", n=facts["messages"]))
        if notice.kind == "exit_ip_changed" and notice.count == 1 and facts.get("was") and facts.get("now"):
            found.append(self.say("line.exit_address", was=facts["was"], now=facts["now"]))
        if notice.kind == "low_stock" and "threshold" in facts:
            found.append(self.say("line.threshold", n=facts["threshold"]))
        if notice.kind in {"backup_done", "restore_done"} and "sessions" in facts:
            found.append(self.say("line.sessions", n=facts["sessions"]))
        found.append(self._who(notice))
        if notice.state == "resolved" and notice.since and notice.at - notice.since >= 1000:
            found.append(self.say("line.lasted", time=self._duration(notice.at - notice.since)))
        if notice.state != "resolved" and (advice := self._words.get(f"advice.{notice.kind}")):
            found.append(advice)
        return found

    def _reason(self, facts: dict[str, Any]) -> str:
        """Words for codes that are ours; anything else is not repeated."""
        code, why, error = facts.get("reason"), facts.get("why"), facts.get("code")
        if error in by_code():
            return self._reasons.known(f"errors.{error}", str(error))
        if code in REASONS:
            return self._reasons.known(f"reason.{code}", "")
        return self._reasons.known(f"proxy_error.{why}", "") if why in PROBE_KINDS else ""

    def _who(self, notice: Notice) -> str:
        """The names, where the title gave only a number."""
        sessions = [s for s in notice.subjects if not s.startswith("proxy:")]
        if notice.count == 1 and "proxy" not in notice.facts:
            return ""
        if notice.state == "resolved" and notice.count == 1:
            return ""
        if not sessions and notice.kind in {"proxy_bad", "exit_ip_changed"} and notice.count > 1:
            sessions = notice.subjects
        shown = [self._name(notice, subject) for subject in sessions[:_NAMES_SHOWN]]
        if not shown:
            return ""
        others = sum(s.startswith("proxy:") for s in notice.subjects) if sessions is not notice.subjects else 0
        rest = notice.count - others - len(shown)
        names = ", ".join(self._isolated(name) for name in shown)
        return names + (f" {self.say('line.more', n=rest)}" if rest > 0 else "")

    def _name(self, notice: Notice, subject: str) -> str:
        kind, _, plain = subject.partition(":")
        if kind == "stock":
            return self._words.get(f"stock.{plain}", plain)
        return notice.names.get(subject, plain)[:_LONGEST_NAME] or "–"

    def _isolated(self, value: object) -> str:
        """Names keep their own direction inside a Hebrew line; control characters never pass."""
        text = "".join(c if c.isprintable() else " " for c in str(value))
        foreign = self._right_to_left and any(c.isascii() and c.isalpha() for c in text)
        return f"\u2068{text}\u2069" if foreign else text

    def _time(self, ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone(self._zone).strftime("%d.%m. %H:%M")

    def _duration(self, ms: int) -> str:
        seconds = ms // 1000
        for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
            if seconds >= 2 * size:
                return self.say(f"lasts.{unit}", n=seconds // size)
        return self.say("lasts.seconds", n=seconds)


def utf16_length(text: str) -> int:
    """As Telegram counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def shortened(text: str, longest: int) -> str:
    """At most so many as Telegram counts them."""
    return text.encode("utf-16-le", "surrogatepass")[: 2 * longest].decode("utf-16-le", "ignore")
