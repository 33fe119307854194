"""Which events of the journal a webhook wants. Pure."""

from __future__ import annotations

from wa_orchestrator.events.envelopes import Session
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store.journal import GAP, JournalEntry


def is_wanted(webhook: Webhook, entry: JournalEntry, facts: Session | None) -> bool | None:
    """None: the session's metadata must be asked for first."""
    if entry.type == GAP:
        return True
    if not webhook.wants(entry.type, entry.session_id):
        return False
    if not webhook.metadata:
        return True
    if not entry.session_id:
        return False
    return None if facts is None else webhook.wants_session_like(facts["metadata"])
