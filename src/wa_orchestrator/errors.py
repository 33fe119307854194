"""Every error a caller can meet, in one tree.

OrchestratorError            code, HTTP status, a sentence that says what to do
├── BadRequest        400    InvalidPhone InvalidProxy InvalidSessionId InvalidJson InvalidWebhookUrl …
├── Unauthorized      401    InvalidSignature KeyExpired KeyDisabled
├── Forbidden         403    CsrfFailed RecipientOptedOut
├── NotFound          404    SessionNotFound ProxyNotFound MessageNotFound SenderNotFound QrNotReady …
├── Conflict          409    SessionExists PhoneAlreadyRegistered ProxyFull StickyProxyFull ProxyBad ProxyInUse …
├── Gone              410    SessionDeleted MediaLost
├── TooLarge          413
├── InvalidBody       422    and beside it InvalidRecipient IdempotencyKeyReused Backup…
├── TooManyRequests   429    DailyLimit RecipientCap TooManySignIns
└── Unavailable       503    NoProxyAvailable StoreUnavailable (StoreFull) DiskFull RunnerUnavailable …
SettingsError                stops start-up
"""

from __future__ import annotations

from typing import ClassVar


class SettingsError(Exception):
    """A setting is wrong; the text says which and how to fix it."""


class ClientGone(Exception):
    """The caller hung up; there is nobody to answer."""


class OrchestratorError(Exception):
    """Something went wrong that the caller should know about."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "INTERNAL"
    sentence: ClassVar[str] = "Something went wrong inside the server. Try again; the log has the details."

    def __init__(
        self, message: str | None = None, *, details: dict[str, object] | None = None, retry_after_s: int | None = None
    ) -> None:
        self.message = message or self.sentence
        self.details = details
        self.retry_after_s = retry_after_s
        super().__init__(self.message)


# 400 ------------------------------------------------------------------------------------------------------------
class BadRequest(OrchestratorError):
    status = 400
    code = "BAD_REQUEST"
    sentence = "The request cannot be understood."


class InvalidJson(BadRequest):
    code = "INVALID_JSON"
    sentence = "The body is not valid JSON. Send an object with Content-Type: application/json."


class InvalidPhone(BadRequest):
    code = "INVALID_PHONE"
    sentence = "Write the phone number in international form, digits only, for example 972501234567."


class InvalidProxy(BadRequest):
    code = "INVALID_PROXY"
    sentence = "Write the proxy as socks5h://user:pass@host:port."


class InvalidWebhookUrl(BadRequest):
    code = "INVALID_WEBHOOK_URL"
    sentence = "Write the address as https://host/path, without a fragment."


class WebhookTargetRefused(BadRequest):
    code = "WEBHOOK_TARGET_REFUSED"
    sentence = "This address leads into a private network. Allow it with WEBHOOK_ALLOW_PRIVATE, or use a public one."


class InvalidSessionId(BadRequest):
    code = "INVALID_SESSION_ID"
    sentence = "A session id has 1 to 64 letters, digits, '_' or '-'."


# 401, 403 -------------------------------------------------------------------------------------------------------
class Unauthorized(OrchestratorError):
    status = 401
    code = "UNAUTHORIZED"
    sentence = "Send the API key in the header X-Api-Key."


class InvalidSignature(Unauthorized):
    code = "INVALID_SIGNATURE"
    sentence = "The signature, its timestamp or the session id does not match this worker's secret."


class KeyExpired(Unauthorized):
    code = "KEY_EXPIRED"
    sentence = "This API key has expired. Ask for a new one, or for more time (PATCH /api/v1/keys/{id})."


class KeyDisabled(Unauthorized):
    code = "KEY_DISABLED"
    sentence = "This API key is switched off. An admin can switch it on again (PATCH /api/v1/keys/{id})."


class Forbidden(OrchestratorError):
    status = 403
    code = "FORBIDDEN"
    sentence = "You may not do this."


class RecipientOptedOut(Forbidden):
    code = "RECIPIENT_OPTED_OUT"
    sentence = "This number does not want messages from us. GET /api/v1/suppression/{phone} says since when and why."


class CsrfFailed(Forbidden):
    code = "CSRF_FAILED"
    sentence = "This page is out of date or the request comes from another site. Load the page again."


# 404 ------------------------------------------------------------------------------------------------------------
class NotFound(OrchestratorError):
    status = 404
    code = "NOT_FOUND"
    sentence = "There is nothing at this address."


class SessionNotFound(NotFound):
    code = "SESSION_NOT_FOUND"
    sentence = "There is no session with this id. GET /api/sessions lists the sessions."


class ProxyNotFound(NotFound):
    code = "PROXY_NOT_FOUND"
    sentence = "There is no proxy with this id. GET /api/v1/proxies lists the proxies."


class MessageNotFound(NotFound):
    code = "MESSAGE_NOT_FOUND"
    sentence = "There is no message with this id; ended ones are forgotten after a while (MESSAGE_KEEP_DAYS)."


class ProfileNotFound(NotFound):
    code = "PROFILE_NOT_FOUND"
    sentence = "There is no profile with this phone in stock. GET /api/v1/profiles lists them."


class MediaNotFound(NotFound):
    code = "MEDIA_NOT_FOUND"
    sentence = "There is no uploaded file with this id. Upload it first: POST /api/v1/media."


class KeyNotFound(NotFound):
    code = "KEY_NOT_FOUND"
    sentence = "There is no API key with this id. GET /api/v1/keys lists the keys."


class NotSuppressed(NotFound):
    code = "NOT_SUPPRESSED"
    sentence = "This number is not on the suppression list."


class BackupNotFound(NotFound):
    code = "BACKUP_NOT_FOUND"
    sentence = "There is no backup with this id. GET /api/v1/backups lists the backups."


class SessionNotInBackup(NotFound):
    code = "SESSION_NOT_IN_BACKUP"
    sentence = "The backup does not hold every session that was asked for."


class WebhookNotFound(NotFound):
    code = "WEBHOOK_NOT_FOUND"
    sentence = "There is no webhook with this id. GET /api/v1/webhooks lists them."


class InboundMediaNotFound(NotFound):
    code = "INBOUND_MEDIA_NOT_FOUND"
    sentence = "This session received no file with this id, or it is forgotten (INBOUND_MEDIA_KEEP_DAYS)."


class ConversationNotFound(NotFound):
    code = "CONVERSATION_NOT_FOUND"
    sentence = "This session has no conversation with this chat, or it is forgotten (INBOX_KEEP_DAYS)."


class SenderNotFound(NotFound):
    code = "SENDER_NOT_FOUND"
    sentence = "No session has this phone number. GET /api/sessions lists the sessions."


class QrNotReady(NotFound):
    code = "QR_NOT_READY"
    sentence = "There is no QR code yet. Ask again in a second; a new one comes every 20 to 60 seconds."


# 405, 409, 410 --------------------------------------------------------------------------------------------------
class MethodNotAllowed(OrchestratorError):
    status = 405
    code = "METHOD_NOT_ALLOWED"
    sentence = "This address does not take that method."


class Conflict(OrchestratorError):
    status = 409
    code = "CONFLICT"
    sentence = "This does not fit the present state."


class SessionExists(Conflict):
    code = "SESSION_EXISTS"
    sentence = "A session with this id exists. Choose another id, or leave it out to get the next free one."


class PhoneAlreadyRegistered(Conflict):
    code = "PHONE_ALREADY_REGISTERED"
    sentence = "This phone is already on a live session."


class ProxyFull(Conflict):
    code = "PROXY_FULL"
    sentence = "This proxy has no free slot. Choose another, or leave the proxy out."


class StickyProxyFull(Conflict):
    code = "STICKY_PROXY_FULL"
    sentence = "The phone's own proxy has no free slot. Free one, or send rebind:true to choose another proxy."


class ProxyBad(Conflict):
    code = "PROXY_BAD"
    sentence = "This proxy is marked bad. Check it (POST /api/v1/proxies/{id}/check) or choose another."


class PhoneOnOtherProxy(Conflict):
    code = "PHONE_ON_OTHER_PROXY"
    sentence = "Another session of this phone uses another proxy; all sessions of one phone share one proxy."


class ProxyInUse(Conflict):
    code = "PROXY_IN_USE"
    sentence = "Sessions use this proxy. Add ?drain=true to move them to other proxies first."


class AlreadyConnected(Conflict):
    code = "ALREADY_CONNECTED"
    sentence = "This session is connected; it needs no code."


class SessionNotRunning(Conflict):
    code = "SESSION_NOT_RUNNING"
    sentence = "The session's worker is not running. Start it first: POST /api/sessions/{id}/start."


class SessionBusy(Conflict):
    code = "SESSION_BUSY"
    sentence = "Another operation on this session is under way. Try again in a moment."


class KeyNameTaken(Conflict):
    code = "KEY_NAME_TAKEN"
    sentence = "Another API key has this name. Choose another: the audit log tells keys apart by their names."


class SessionMoved(Conflict):
    code = "SESSION_MOVED"
    sentence = "This session was exported to another server and must not run here. Import its export to bring it back."


class BackupBusy(Conflict):
    code = "BACKUP_BUSY"
    sentence = "Another backup, restore or export is under way. Try again when it has ended."


class BackupOlder(Conflict):
    code = "BACKUP_OLDER"
    sentence = (
        "Sessions have newer keys than the backup; restored, they may need a new scan. Send force:true to restore "
        "them all the same, or choose other sessions."
    )


class TooManyWebhooks(Conflict):
    code = "TOO_MANY_WEBHOOKS"
    sentence = "There are as many webhooks as one server serves. Delete some, or let one serve several sessions."


class MessageUnderWay(Conflict):
    code = "MESSAGE_UNDER_WAY"
    sentence = "The message is with its worker or has ended; it can no longer be cancelled."


class MessageNotFailed(Conflict):
    code = "MESSAGE_NOT_FAILED"
    sentence = "Only a failed message can be driven again."


class AlertsOff(Conflict):
    code = "ALERTS_OFF"
    sentence = "Alerts are off. Set TELEGRAM_BOT_TOKEN and TELEGRAM_CHAT_ID, then start the server again."


class TelegramRefused(Conflict):
    code = "TELEGRAM_REFUSED"
    sentence = "Telegram refuses. Check TELEGRAM_BOT_TOKEN and TELEGRAM_CHAT_ID."


class NoProfileLeft(Conflict):
    code = "NO_PROFILE_LEFT"
    sentence = "There is no profile in stock. Upload some: POST /upload/profiles."


class LeaseLost(Conflict):
    code = "LEASE_LOST"
    sentence = "This message was handed out again or has ended; forget it."


class MediaPending(Conflict):
    code = "MEDIA_PENDING"
    sentence = "The file is still being fetched. Wait for MEDIA_READY, or ask again in a moment."


class InboxOff(Conflict):
    code = "INBOX_OFF"
    sentence = "This server keeps no conversations (INBOX_KEEP_DAYS=0). What comes in is told by events."


class Gone(OrchestratorError):
    status = 410
    code = "GONE"
    sentence = "This was deleted."


class MediaLost(Gone):
    code = "MEDIA_LOST"
    sentence = "The file could not be fetched, was removed to make room, or lies on another server (INBOUND_MEDIA_DIR)."


class SessionDeleted(Gone):
    code = "SESSION_DELETED"
    sentence = "This session was deleted."


# 413, 422, 429 --------------------------------------------------------------------------------------------------
class TooLarge(OrchestratorError):
    status = 413
    code = "TOO_LARGE"
    sentence = "The body is too large."


class InvalidBody(OrchestratorError):
    status = 422
    code = "INVALID_BODY"
    sentence = "A field of the body is wrong."


class IdempotencyKeyReused(OrchestratorError):
    status = 422
    code = "IDEMPOTENCY_KEY_REUSED"
    sentence = "This Idempotency-Key was used with another body within the last 24 hours. Use a new key."


class InvalidRecipient(OrchestratorError):
    status = 422
    code = "INVALID_RECIPIENT"
    sentence = "Write `to` as a number in international form (972501234567) or as a chat id (…@g.us, …@lid)."


class BackupDamaged(OrchestratorError):
    status = 422
    code = "BACKUP_DAMAGED"
    sentence = "The backup is damaged or incomplete. Nothing was changed; use another backup."


class BackupUnsafe(OrchestratorError):
    status = 422
    code = "BACKUP_UNSAFE"
    sentence = (
        "The file holds entries that no backup of ours has. Nothing was changed; do not trust where it came from."
    )


class BackupTooNew(OrchestratorError):
    status = 422
    code = "BACKUP_TOO_NEW"
    sentence = "The backup was made by a newer version. Update this server first."


class BackupNeedsPassphrase(OrchestratorError):
    status = 422
    code = "BACKUP_NEEDS_PASSPHRASE"
    sentence = "The backup is encrypted. Set BACKUP_PASSPHRASE, or send the passphrase along."


class BackupWrongPassphrase(OrchestratorError):
    status = 422
    code = "BACKUP_WRONG_PASSPHRASE"
    sentence = "The passphrase does not open this backup. Nothing was changed; send the one it was made with."


class TooManyRequests(OrchestratorError):
    status = 429
    code = "TOO_MANY_REQUESTS"
    sentence = "Too many requests. Wait as long as Retry-After says."


class TooManySignIns(TooManyRequests):
    code = "TOO_MANY_SIGN_INS"
    sentence = "Too many tries to sign in. Wait as long as Retry-After says, then try again."


class DailyLimit(TooManyRequests):
    code = "DAILY_LIMIT"
    sentence = "The sender's limit for today is used up. Send defer:true to have it go out on the next day."


class RecipientCap(TooManyRequests):
    code = "RECIPIENT_CAP"
    sentence = (
        "This number has had as many messages today as RECIPIENT_CAP_PER_DAY allows. "
        "Send defer:true to have it go out on the next day."
    )


# 503 ------------------------------------------------------------------------------------------------------------
class Unavailable(OrchestratorError):
    status = 503
    code = "UNAVAILABLE"
    sentence = "A part of the server is away. Try again in a moment."


class NoProxyAvailable(Unavailable):
    code = "NO_PROXY_AVAILABLE"
    sentence = "No healthy proxy has a free slot. Add a proxy, or free a slot."


class StoreUnavailable(Unavailable):
    code = "STORE_UNAVAILABLE"
    sentence = "The store (Redis/Valkey) cannot be reached. Nothing was changed; try again in a moment."


class StoreFull(StoreUnavailable):
    code = "STORE_FULL"
    sentence = "The store has no memory or disk left and takes nothing new. Nothing was changed; make room there."


class DiskFull(Unavailable):
    code = "DISK_FULL"
    sentence = "The disk of the data folder is full. Nothing was kept; make room there, then try again."


class RunnerUnavailable(Unavailable):
    code = "RUNNER_UNAVAILABLE"
    sentence = "The worker could not be started. Nothing was kept; `wa-orchestrator doctor` says what is missing."


class NoMediaFolder(Unavailable):
    code = "NO_MEDIA_FOLDER"
    sentence = (
        "This gateway has no data folder to keep uploads in. Upload to the orchestrator, send the file by URL or "
        "base64, or start the gateway with the orchestrator's --data-dir."
    )


class NoSpace(Unavailable):
    code = "NO_SPACE"
    sentence = "There is not enough free disk space. Nothing was changed; free some and try again."


class OperationInterrupted(Unavailable):
    code = "OPERATION_INTERRUPTED"
    sentence = "The server ended in the middle. Look at its state, then order it again."


class RestoreFailed(Unavailable):
    code = "RESTORE_FAILED"
    sentence = "The restore failed and everything was put back as it was before. The log has the details."


class TelegramAway(Unavailable):
    code = "TELEGRAM_AWAY"
    sentence = "Telegram cannot be reached just now. Alerts wait and are sent later; check the way out of this server."


class WorkerSilent(Unavailable):
    code = "WORKER_SILENT"
    sentence = "The session's worker did not answer in time. Look at its state and log, then try again."


def by_code() -> dict[str, type[OrchestratorError]]:
    """Every error class by its code, so that a store script's verdict becomes an exception."""
    found: dict[str, type[OrchestratorError]] = {}
    waiting: list[type[OrchestratorError]] = [OrchestratorError]
    while waiting:
        kind = waiting.pop()
        found[kind.code] = kind
        waiting.extend(kind.__subclasses__())
    return found
