"""What may be sent to a recipient, and why not. Pure."""

from __future__ import annotations

from typing import Any

from wa_orchestrator.clock import iso
from wa_orchestrator.store.suppression import KnownRecipient, Suppressed


def entry_view(entry: Suppressed) -> dict[str, Any]:
    return {
        "phone": entry.phone,
        "lid": entry.lid or None,
        "reason": entry.reason or None,
        "source": entry.source,
        "at": iso(entry.at),
        "by": entry.by or None,
        "note": entry.note or None,
    }


def recipient_view(phone: str, known: KnownRecipient) -> dict[str, Any]:
    reasons = reasons_against(known)
    return {
        "phone": phone,
        "maySend": not reasons,
        "reasons": reasons,
        "suppressed": entry_view(known.suppressed) if known.suppressed else None,
        "today": {
            "released": known.today if known.cap else None,
            "limit": known.cap or None,
            "resetsAt": iso(known.resets_at) if known.cap else None,
        },
        "waiting": known.waiting,
        "lastContact": {"sessionId": known.last_session, "at": iso(known.last_at)} if known.last_session else None,
        "nextSession": known.routed_session or known.last_session or None,
        "consent": [
            {"source": note.source, "at": iso(note.at), "note": note.note or None, "by": note.by or None}
            for note in known.consent
        ],
    }


def reasons_against(known: KnownRecipient) -> list[dict[str, Any]]:
    """Every reason that a message would be refused for now, the strongest first."""
    found: list[dict[str, Any]] = []
    if known.suppressed:
        how = "by a word it wrote" if known.suppressed.source == "word" else "by hand"
        found.append(
            {"code": "RECIPIENT_OPTED_OUT", "message": f"The number is on the suppression list, {how}.", "until": None}
        )
    if known.cap and known.today + known.waiting >= known.cap:
        sentence = "The number has had, or waits for, as many messages today as it may get."
        found.append({"code": "RECIPIENT_CAP", "message": sentence, "until": iso(known.resets_at)})
    return found
