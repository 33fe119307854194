"""Which running worker needs a restart, and why. Pure."""

from __future__ import annotations

from wa_orchestrator.model.session import Status, Watched

# WhatsApp answers every ping within seconds and workers ping it every half minute: nothing heard for three minutes
# while messages stay unanswered is not a quiet chat.
DEAF_AFTER_MS = 180_000
DEAF_UNACKED = 3
# One restart for deafness, then patience: if it did not help, the next one would not either.
RESCUE_AGAIN_MS = 30 * 60_000


def needs_restart(watched: Watched, *, now_ms: int, ping_timeout_ms: int, hearing_since_ms: int = 0) -> str | None:
    """The reason, or None. A worker gets a full time-out after its start, or since we can hear, before it is judged."""
    session = watched.session
    started = session.started_at or session.created_at
    if now_ms - started < ping_timeout_ms:
        return None
    heard = max(session.last_ping or 0, started, hearing_since_ms)
    if now_ms - heard >= ping_timeout_ms:
        return "NO_PING"
    deaf = (
        session.status is Status.CONNECTED
        and watched.unacked >= DEAF_UNACKED
        and now_ms - max(watched.last_received_at or started, hearing_since_ms) >= DEAF_AFTER_MS
        and now_ms - (watched.rescued_at or 0) >= RESCUE_AGAIN_MS
    )
    return "CONNECTED_BUT_DEAF" if deaf else None
