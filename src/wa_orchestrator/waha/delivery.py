"""What is posted to a WAHA webhook for a journal entry. Pure; events/envelopes.py names it as the format `waha`."""

from __future__ import annotations

import msgspec

from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator.waha.envelope import TEST, Facts, envelope, event_for, webhook_headers
from wa_orchestrator.waha.subscriptions import base_url_of, events_wanted_by


def waha_request(
    entry: JournalEntry, webhook: Webhook, session: Facts, now_ms: int
) -> tuple[bytes, dict[str, str]] | None:
    """(body, headers); None when the entry is none of the events that this webhook wants."""
    event = TEST if entry.type == TEST else event_for(entry, events_wanted_by(webhook))
    if event is None:
        return None
    told = envelope(entry, event, session, base_url=base_url_of(webhook))
    body = msgspec.json.encode(told)
    signed = webhook_headers(body, key=webhook.secret, request_id=told["id"], now_ms=now_ms)
    return body, {"Content-Type": "application/json", **signed, **webhook.headers}
