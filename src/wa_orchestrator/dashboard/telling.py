"""Journal entries as sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.dashboard.looks import TONES, shown_phone
from wa_orchestrator.dashboard.words import Words
from wa_orchestrator.model.session import Status
from wa_orchestrator.store.journal import JournalEntry

KINDS = ("sessions", "messages", "proxies", "alerts", "trouble")
_TONES = {
    "CONNECTED": "good", "message.sent": "good", "message.delivered": "good", "message.read": "good",
    "proxy.recovered": "good", "lane.recovered": "good", "DISCONNECTED": "warn", "PROXY_ERROR": "warn",
    "session.moved": "warn", "lane.slowed": "warn", "session.deleted": "off", "proxy.bad": "bad",
    "AUTH_FAILURE": "bad", "alert.raised": "warn", "alert.resolved": "good", "session.waiting": "bad",
    "backup.created": "good", "restore.done": "good", "session.export_made": "good", "session.restored": "good",
    "backup.failed": "bad", "restore.failed": "bad", "session.export_failed": "bad", "session.exported": "off",
    "inventory.low": "warn", "inventory.enough": "good", "MESSAGE_FAILED": "bad", "message.failed": "bad",
    "lane.blocked": "bad",
}  # fmt: skip


@dataclass(frozen=True)
class Told:
    number: int
    at: int
    type: str
    kind: str
    session: str
    text: str
    tone: str  # good, warn, bad, off or empty


def tell(entry: JournalEntry, words: Words, places: Mapping[str, str]) -> Told:
    """`places`: proxy id → host:port, for those that are still known. Never a message's text."""
    data = entry.data
    tone = _TONES.get(entry.type, "")
    if entry.type == "alert.raised":
        tone = {"info": "good", "critical": "bad"}.get(str(data.get("severity")), tone)
    if entry.type == "session.status" and data.get("status") in list(Status):
        tone = TONES[Status(data["status"])]
    template = words.known(f"event.{entry.type}", entry.type)
    if not data.get("reason"):
        template = words.known(f"event.{entry.type}.plain", template)
    return Told(
        entry.number, entry.at, entry.type, _kind(entry.type), entry.session_id,
        template.format_map(_Values(_values(data, words, places))), "" if tone == "wait" else tone,
    )  # fmt: skip


class _Values(dict[str, str]):
    """A value that an older entry does not have is left out."""

    def __missing__(self, key: str) -> str:
        return "–"


def _values(data: dict[str, Any], words: Words, places: Mapping[str, str]) -> dict[str, str]:
    values: dict[str, str] = {}
    for name, value in data.items():
        if not isinstance(value, (str, int, float)) or name in {"text", "caption", "content"}:
            continue
        shown = str(value)[:200]
        if name in {"status", "was"}:
            shown = words.known(f"status.{shown}", shown)
        elif name in {"reason", "kind"}:
            shown = words.reason(shown) if shown else ""
        elif name == "stock":
            shown = words.known(f"stock.{shown}", shown)
        elif shown.startswith("px_"):
            shown = places.get(shown, shown)
        elif name in {"phone", "to", "from", "phoneNumber"}:
            shown = shown_phone(shown.split("@")[0])
        # isolated, so that it keeps its order inside Hebrew; numbers and addresses run from left to right
        opening = "\u2068" if name in {"status", "was", "reason", "kind", "stock", "title"} else "\u2066"
        values[name] = f"{opening}{shown}\u2069" if shown else "–"
    return values


def _kind(event: str) -> str:
    if event.startswith(("message.", "MESSAGE_", "lane.")):
        return "messages"
    if event.startswith(("alert.", "inventory.")):
        return "alerts"
    if event.startswith("proxy."):
        return "proxies"
    return "sessions"


def wanted(told: Told, *, kind: str, search: str) -> bool:
    if kind == "trouble" and told.tone not in {"warn", "bad"}:
        return False
    if kind in KINDS and kind not in {"trouble", told.kind}:
        return False
    text = f"{told.session} {told.type} {told.text}".lower()
    return all(word in text for word in search.lower().split())
