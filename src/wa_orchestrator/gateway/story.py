"""A message's whole story for whoever asks: where it is, since when, and why it still waits. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from wa_orchestrator.clock import iso
from wa_orchestrator.store.messages import story_lines

_NOBODY = "No session can take it yet. Connect one, and it goes out."
_UNROUTED = {
    "RECIPIENT_CAP": "The recipient has had as many messages today as it may get; it goes out on the next day.",
    "SESSION_NOT_LINKED": "Its session was never linked to a phone. Scan its code, and it goes out.",
}
_AWAY = {
    "": "Its session is gone.",
    "stopped": "Its session is stopped. Start the session, and it goes out.",
    "failed": "Its session has failed. Look at the session's reason, then start it.",
    "logged_out": "Its session is logged out. Start the session and scan its new code.",
    "pending": "Its session waits to be scanned. Scan its code, and it goes out.",
    "qr_ready": "Its session waits to be scanned. Scan its code, and it goes out.",
    "disconnected": "Its session has no working proxy; it goes on by itself once it has one.",
}
_STEPS = ("accepted", "queued", "outbox", "claimed", "sent", "delivered", "read", "played", "failed", "expired",
          "cancelled")  # fmt: skip


def message_view(record: dict[str, str]) -> dict[str, Any]:
    """One message as lists show it: what it is and how far it got, not what it says."""
    content = msgspec.json.decode(record.get("content", "{}"))
    return {
        "messageId": record["id"],
        "waMessageId": record["wa"],
        "to": record["to"],
        "sessionId": record.get("outboxOf") or record.get("session") or None,
        "phone": record.get("lane") or None,
        "status": record["state"],
        "reason": record.get("reason") or None,
        "kind": content.get("kind"),
        "priority": int(record.get("priority", 2)),
        "attempts": int(record.get("attempts", 0)),
        "reference": record.get("reference") or None,
        "acceptedAt": iso(record.get("acceptedAt")),
        "sentAt": iso(record.get("sentAt")),
        "deliveredAt": iso(record.get("deliveredAt")),
        "readAt": iso(record.get("readAt")),
        "scheduleAt": iso(record.get("scheduleAt")),
        "expiresAt": iso(record.get("expiresAt")),
    }


def full_story(record: dict[str, str], lane: dict[str, str], *, now_ms: int, session: str) -> dict[str, Any]:
    """The message with its content, each step with its time, and what it waits for."""
    steps: list[dict[str, Any]] = [
        {"at": float(record[f"{step}At"]), "what": step, "reason": _reason(record, step)}
        for step in _STEPS
        if record.get(f"{step}At")
    ]
    # at the same moment the cause is told before what followed from it
    steps = story_lines(record) + steps
    steps.sort(key=lambda step: step["at"])
    return {
        **message_view(record),
        "content": msgspec.json.decode(record.get("content", "{}")),
        "story": [{"at": iso(s["at"]), "what": s["what"], "reason": s["reason"] or None} for s in steps],
        "waitingFor": waiting_for(record, lane, now_ms=now_ms, session=session),
        **({"traceparent": record["traceparent"]} if record.get("traceparent") else {}),
    }


def _reason(record: dict[str, str], step: str) -> str:
    return record.get("reason", "") if step == record["state"] else ""


def waiting_for(record: dict[str, str], lane: dict[str, str], *, now_ms: int, session: str) -> dict[str, Any] | None:
    """Why it has not left yet, as a code, a sentence and, where known, until when. `session`: its session's status."""
    if record["state"] not in {"accepted", "queued", "outbox", "claimed"}:
        return None
    code, sentence, until = next(
        (code, sentence, until) for holds, code, sentence, until in _reasons(record, lane, now_ms, session) if holds
    )
    return {"code": code, "message": sentence, "until": iso(until)}


def _reasons(
    record: dict[str, str], lane: dict[str, str], now: int, session: str
) -> Iterator[tuple[bool, str, str, float | None]]:
    """(does it hold, code, sentence, until when), the strongest reason first; the last one always holds."""
    state = record["state"]

    def moment(name: str) -> float:
        return float(lane.get(name) or 0)

    scheduled = float(record.get("scheduleAt") or 0)
    yield state == "accepted" and scheduled > now, "SCHEDULED", "It is planned for later.", scheduled
    unrouted = str(record.get("waitingFor", ""))
    yield state == "accepted" and unrouted != "", unrouted, _UNROUTED.get(unrouted, _NOBODY), None
    yield state == "accepted", "ROUTING", "A sender is being chosen.", None
    away = _AWAY.get(session, f"Its session is {session}; it goes out once connected.")
    yield session != "connected", "SESSION_NOT_CONNECTED", away, None
    retry = float(record.get("retryAt") or 0)
    again = "The last try did not work; it is tried again."
    yield state == "outbox" and retry > now, "RETRYING", again, retry
    with_worker = "It is with the worker; WhatsApp has not confirmed it yet."
    yield state in {"outbox", "claimed"}, "WITH_WORKER", with_worker, None
    limited = f"WhatsApp limits this phone ({lane.get('blockReason')})."
    yield moment("blockedUntil") > now, "WHATSAPP_LIMIT", limited, moment("blockedUntil")
    closed = "It is outside the phone's sending hours."
    yield moment("opensAt") > now, "OUT_OF_HOURS", closed, moment("opensAt")
    used_up = "daily" in lane and int(lane.get("dayCount", 0)) >= int(lane["daily"]) and moment("dayEndsAt") > now
    next_day = max(moment("dayEndsAt"), moment("nextOpensAt"))
    yield used_up, "DAILY_LIMIT", "The phone's limit for today is used up.", next_day
    burst = "The phone pauses after a burst of messages."
    yield moment("pausedUntil") > now, "BURST_PAUSE", burst, moment("pausedUntil")
    slowed = "The phone is slowed down after failures in a row."
    yield "slow" in lane, "SLOWED_DOWN", slowed, moment("nextDue")
    yield True, "PACING", "Earlier messages of this phone go first, at its pace.", max(now, moment("nextDue"))
