"""The webhooks of a WAHA session as subscriptions of ours, and back. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from wa_orchestrator.events.targets import shown_url
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.waha import bodies
from wa_orchestrator.waha.envelope import JOURNAL_TYPES, KNOWN_EVENTS, LINES

FORMAT = "waha"
HIDDEN = "********"
# A subscription's types are names of the journal; WAHA's are finer and stand in its options.
_EVENTS, _BASE = "wahaEvents", "baseUrl"


def wanted_events(names: Sequence[str]) -> frozenset[str]:
    """WAHA's events; `*` stands for all. Those that never happen here are passed over."""
    if "*" in names:
        return KNOWN_EVENTS
    return frozenset(name for name in names if name in KNOWN_EVENTS)


def events_wanted_by(webhook: Webhook) -> frozenset[str]:
    """One that was not made with a session, but by hand in this format, wants the usual ones."""
    return frozenset(webhook.options[_EVENTS].split()) if made_with_session(webhook) else LINES[0]


def made_with_session(webhook: Webhook) -> bool:
    return webhook.format == FORMAT and _EVENTS in webhook.options and len(webhook.sessions) == 1


def base_url_of(webhook: Webhook) -> str:
    """How whoever made it reached us, so that its receiver can."""
    return webhook.options.get(_BASE, "")


def subscriptions(session_id: str, given: Sequence[bodies.Webhook], *, base_url: str) -> list[Webhook]:
    """Up to two for each webhook, see LINES; none for one that wants nothing we have. Their ids follow from session,
    address and place, so that the same wish twice is the same subscription and keeps its place in the journal."""
    made: list[Webhook] = []
    seen: Counter[str] = Counter()
    for one in given:
        seen[one.url] += 1
        name = hashlib.sha256(f"{session_id}\0{one.url}\0{seen[one.url]}".encode()).hexdigest()[:15]
        for line, events in enumerate(LINES):
            wanted = sorted(wanted_events(one.events) & events)
            if wanted:
                kinds = sorted({kind for event in wanted for kind in JOURNAL_TYPES[event]})
                made.append(
                    Webhook(
                        webhook_id=f"wh_{name}{line}",
                        url=one.url,
                        secret=(one.hmac.key if one.hmac else None) or "",
                        label=f"WAHA, session {session_id}",
                        types=tuple(kinds),
                        sessions=(session_id,),
                        headers={header.name: header.value for header in one.customHeaders or []},
                        format=FORMAT,
                        options={_EVENTS: " ".join(wanted), _BASE: base_url},
                    )
                )
    return made


def shown_webhooks(found: Sequence[Webhook], *, open_secrets: bool = False) -> list[dict[str, Any]]:
    """As WAHA writes them; secrets are hidden, for this goes into list answers."""
    whole: dict[str, tuple[Webhook, frozenset[str]]] = {}
    for one in found:
        name = one.webhook_id[:-1]
        known = whole[name][1] if name in whole else frozenset()
        whole[name] = (one, known | events_wanted_by(one))
    return [
        {
            "url": one.url if open_secrets else shown_url(one.url),
            "events": sorted(events),
            "hmac": {"key": one.secret if open_secrets else HIDDEN} if one.secret else None,
            "customHeaders": [
                {"name": name, "value": value if open_secrets else HIDDEN} for name, value in one.headers.items()
            ]
            or None,
            "retries": None,
        }
        for one, events in whole.values()
    ]


def with_hidden_filled(given: Sequence[bodies.Webhook], present: Sequence[dict[str, Any]]) -> list[bodies.Webhook]:
    """Who reads a session and writes it back sends our mask: it means "as it was". `present` shows its secrets."""
    kept = {shown_url(one["url"]): one for one in present}

    def filled(one: bodies.Webhook) -> bodies.Webhook:
        known = kept.get(one.url, {})
        changes: dict[str, Any] = {"url": known["url"]} if known else {}
        if one.hmac and one.hmac.key == HIDDEN:
            changes["hmac"] = bodies.Hmac(key=(known.get("hmac") or {}).get("key"))
        old = {header["name"]: header["value"] for header in known.get("customHeaders") or []}
        if any(header.value == HIDDEN for header in one.customHeaders or []):
            changes["customHeaders"] = [
                bodies.CustomHeader(name=h.name, value=old.get(h.name, "") if h.value == HIDDEN else h.value)
                for h in one.customHeaders or []
            ]
        return one.model_copy(update=changes)

    return [filled(one) for one in given]
