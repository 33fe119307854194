"""Every type of event: when it happens and what its data holds. `docs/reference/events.md` is made from it.

Two spellings, for two kinds of speakers: CAPITALS are what a session's worker reported, word by word as in the worker
protocol; `thing.happened` is what the control plane did or found. To add an event: note it in a script, add it here.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class EventType:
    name: str
    about: str
    data: dict[str, str] = field(default_factory=dict)


_MESSAGE = {
    "messageId": "our id",
    "waMessageId": "WhatsApp's id",
    "to": "the recipient",
    "reason": "why, or empty",
    "traceparent": "the sender's trace, if it gave one",
}
_PROXY = {"proxy": "its id"}
_WEBHOOK = {"webhookId": "which one"}
_PHONE = {"phone": "the number"}
_OPERATION_FAILED = {"code": "", "message": "what went wrong", "operationId": ""}
_MOVED = {"from": "proxy id", "to": "proxy id", "reason": "why", "running": "whether its worker ran"}

_ALL = (
    # sessions
    EventType("session.created", "A session was made.", _PROXY),
    EventType("session.status", "A session changed its state.",
              {"status": "the new state", "was": "the one before", "reason": "why, or empty"}),
    EventType("session.moved", "A session was moved to another proxy.", _MOVED),
    EventType("session.waiting", "A session's proxy failed and no other has room.",
              {"proxy": "the failed one", "reason": "why"}),
    EventType("session.deleted", "A session was deleted.", _PROXY),
    EventType("QR_CODE", "A code is ready to scan; the code itself is at `GET /api/sessions/{id}/qr` only.",
              {"expiresAt": "ms since the epoch", "expired": "true: it came too late"}),
    EventType("QR_UPDATE", "The same from a worker of the older kind.", {"expiresAt": "ms since the epoch"}),
    EventType("PAIRING_CODE", "A pairing code was made."),
    EventType("CONNECTED", "The phone is connected.",
              {"phoneNumber": "digits", "jid": "", "lid": "", "name": "", "fingerprint": "of the credentials"}),
    EventType("DISCONNECTED", "The connection ended.",
              {"reason": "", "code": "WhatsApp's", "isProxyError": "", "isLoggedOut": "", "willReconnect": ""}),
    EventType("AUTH_FAILURE", "The credentials cannot be used; a new scan is needed.", {"reason": ""}),
    EventType("PROXY_ERROR", "The worker could not get through its proxy.",
              {"error": "", "kind": "", "host": "", "port": ""}),
    EventType("STATUS_CHANGE", "A worker of the older kind tells its state.", {"status": "", "error": ""}),
    EventType("COMMAND_RESULT", "A worker answered a command.", {"commandId": "", "ok": "true or false"}),
    EventType("session.exported", "A session was exported to another server and stopped here.", _PHONE),
    EventType("session.restored", "A session was brought back from a backup.",
              {"backup": "its id", "proxy": "its id, or empty", "undone": "true: back to what was before"}),
    EventType("session.export_made", "The file of an exported session is ready.",
              {"backup": "its id", "sessionId": "", "bytes": "", "files": ""}),
    EventType("session.export_failed", "An export was not made.", _OPERATION_FAILED),
    # messages
    EventType("MESSAGE_RECEIVED", "A message came in.",
              {"waMessageId": "", "from": "number of the sender", "fromLid": "", "chat": "", "kind": "text, image …",
               "text": "", "media": "mimetype, size, name", "quoted": "what it answers", "timestamp": "ms",
               "offline": "true: sent while the session was away"}),
    EventType("MEDIA_READY", "The file of a message that came in can be fetched.", {"mediaId": "", "waMessageId": ""}),
    EventType("MEDIA_FAILED", "The file of a message that came in could not be had.",
              {"mediaId": "", "waMessageId": "", "error": ""}),
    EventType("MESSAGE_STATUS", "A receipt from WhatsApp, as the worker tells it.",
              {"waMessageId": "", "status": "sent, delivered, read, played, error", "to": "", "error": ""}),
    EventType("MESSAGE_SENT", "A worker learned late that a message was sent.", {"messageId": "", "waMessageId": ""}),
    EventType("MESSAGE_FAILED", "A worker could not send a message.",
              {"messageId": "", "waMessageId": "", "error": "", "retryable": ""}),
    EventType("message.sent", "WhatsApp acknowledged a message.", _MESSAGE),
    EventType("message.delivered", "The recipient's phone has it.", _MESSAGE),
    EventType("message.read", "The recipient read it.", _MESSAGE),
    EventType("message.played", "The recipient played it.", _MESSAGE),
    EventType("message.failed", "A message ended unsent.", _MESSAGE),
    EventType("message.expired", "A message was not sent in its time.", _MESSAGE),
    EventType("message.cancelled", "A message was taken back before it was sent.", _MESSAGE),
    # pacing
    EventType("lane.blocked", "WhatsApp limits a phone.", {**_PHONE, "reason": "", "until": "ms since the epoch"}),
    EventType("lane.slowed", "A phone is slowed down after failures.", {**_PHONE, "failures": "in a row"}),
    EventType("lane.recovered", "A phone sends at full pace again.", _PHONE),
    EventType("lane.flood", "Very many messages were accepted for a phone.", {**_PHONE, "messages": "in this minute"}),
    # backups
    EventType("backup.created", "A backup was made.",
              {"backup": "its id", "sessions": "in it", "skipped": "sessions left out", "files": "",
               "bytes": "of the file", "plainBytes": "before compression", "longestPauseMs": "of a session",
               "ms": "it took",
               "retired": "old backups removed"}),
    EventType("backup.failed", "A backup was not made.", _OPERATION_FAILED),
    EventType("restore.done", "Sessions were restored from a backup.",
              {"backup": "its id", "sessions": "restored", "withoutSlot": "of them stopped for want of a proxy"}),
    EventType("restore.failed", "A restore failed; all is as before.", {**_OPERATION_FAILED, "backup": "its id"}),
    # proxies
    EventType("proxy.added", "A proxy was added.", _PROXY),
    EventType("proxy.bad", "A proxy is out of use.", {**_PROXY, "kind": "", "error": "", "sessions": "on it"}),
    EventType("proxy.recovered", "A proxy works again.", _PROXY),
    EventType("proxy.draining", "A proxy is being emptied.", {**_PROXY, "sessions": "still on it"}),
    EventType("proxy.removed", "A proxy was removed.", _PROXY),
    EventType("proxy.exit_ip_changed", "A proxy leaves from another address than before.",
              {**_PROXY, "was": "the address before", "now": "the address now"}),
    EventType("proxy.password_changed", "A proxy has a new password.", _PROXY),
    # webhooks
    EventType("webhook.created", "A webhook was made.", _WEBHOOK),
    EventType("webhook.deleted", "A webhook was deleted.", _WEBHOOK),
    EventType("webhook.failing", "A receiver has failed for a minute.", {**_WEBHOOK, "error": "the last one"}),
    EventType("webhook.recovered", "That receiver takes events again.", _WEBHOOK),
    EventType("webhook.dead", "Events became dead letters.", {**_WEBHOOK, "events": "how many"}),
    EventType("webhook.disabled", "A webhook was switched off: its receiver answered 410.", {**_WEBHOOK, "reason": ""}),
    EventType("webhook.test", "Sent by the test call only; it has no number.", _WEBHOOK),
    # recipients and keys
    EventType("recipient.opted_out", "A recipient wrote an opt-out word to a session.",
              {**_PHONE, "word": "which one", "cancelled": "messages that waited for it"}),
    EventType("recipient.opted_in", "A recipient wrote an opt-in word after an opt-out.",
              {**_PHONE, "word": "which one"}),
    EventType("recipient.suppressed", "A number was put on the suppression list by hand or import.",
              {**_PHONE, "reason": "", "source": "hand or import"}),
    EventType("recipient.allowed", "A number was taken off the suppression list.", {**_PHONE, "by": "who did it"}),
    EventType("key.created", "An API key was made.", {"name": "its name"}),
    EventType("key.changed", "An API key was changed or rotated.", {"name": "its name"}),
    EventType("key.revoked", "An API key was revoked.", {"name": "its name"}),
    # alerts and stock
    EventType("alert.raised", "An alert was told: something is wrong, or is news.",
              {"alertId": "", "kind": "", "severity": "info, warning or critical", "state": "raised or told",
               "count": "how many it concerns", "subjects": "the first twelve", "title": "in words"}),
    EventType("alert.resolved", "What was alarmed is over.",
              {"alertId": "", "kind": "", "severity": "", "state": "resolved", "count": "", "subjects": "",
               "title": ""}),
    EventType("inventory.low", "A stock is below its threshold.",
              {"stock": "freeSlots, healthyProxies, connectedSessions or profiles", "count": "", "threshold": ""}),
    EventType("inventory.enough", "That stock is enough again.", {"stock": "", "count": "", "threshold": ""}),
    # the installation
    EventType("journal.gap", "Stands in for events that are no longer kept, for whoever would miss them. Never noted.",
              {"from": "first missing number", "to": "last missing number", "restarted": "true: numbers begin anew"}),
    EventType("clock.set_back", "The clock was set back; what was reckoned while it was ahead was put right.",
              {"backMs": "by how much"}),
    EventType("orchestrator.leads", "An orchestrator took the lead.", {"orchestrator": "its id"}),
)  # fmt: skip
EVENT_TYPES: dict[str, EventType] = {kind.name: kind for kind in _ALL}
