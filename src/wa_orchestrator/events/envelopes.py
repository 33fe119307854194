"""How an event is put into a request: the body, the headers, the signature. Pure.

A format is a function `(entry, webhook, session, now_ms) → Outgoing | None`: from a journal entry to what is posted.
`None` says that this format has no such event; it is passed over. To add a format, write its function in a file of its
own and name it in `FORMATS`. `session` holds what is known of the event's session (phone, jid, lid, name, label,
metadata); for events without a session, and for formats that are not in `NEEDS_SESSION`, it is empty.

The function must depend on nothing else: a repeat of the same event has to be the same request, apart from its
time stamp and signature.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from wa_orchestrator import __version__
from wa_orchestrator.model.webhook import NATIVE, Webhook
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator.waha.delivery import waha_request
from wa_orchestrator.waha.subscriptions import FORMAT as WAHA

Session = Mapping[str, Any]


@dataclass(frozen=True)
class Outgoing:
    body: bytes
    headers: dict[str, str]


Format = Callable[[JournalEntry, Webhook, Session, int], Outgoing | None]


def native(entry: JournalEntry, webhook: Webhook, _session: Session, now_ms: int) -> Outgoing:
    """Our own: the entry as `GET /api/v1/events` shows it."""
    stamp = str(now_ms)
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"wa-orchestrator/{__version__}",
        "X-Webhook-Id": webhook.webhook_id,
        "X-Webhook-Event": entry.type,
        "X-Webhook-Event-Number": str(entry.number),
        "X-Webhook-Timestamp": stamp,
        "X-Webhook-Signature": signature(webhook.secret, stamp, entry.wire),
    }
    return Outgoing(entry.wire, {**headers, **webhook.headers})


def signature(secret: str, stamp: str, body: bytes) -> str:
    """HMAC-SHA256 over `<timestamp>.<body>`, so that neither can be changed and an old request cannot be used again."""
    return "sha256=" + hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def waha(entry: JournalEntry, webhook: Webhook, session: Session, now_ms: int) -> Outgoing | None:
    """As WAHA posts it; for sessions made through the façade."""
    made = waha_request(entry, webhook, session, now_ms)
    return Outgoing(*made) if made else None


FORMATS: dict[str, Format] = {NATIVE: native, WAHA: waha}
NEEDS_SESSION: set[str] = {WAHA}
