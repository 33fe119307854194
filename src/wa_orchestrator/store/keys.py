"""Every key in the store: how it is built, its type, its owner and how long it lives.

The Lua scripts get the same builders (`K.session(id)`), made from this table, so that a name stands in one place only.
`docs/reference/store-keys.md` is made from it too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Key:
    """One kind of key. `pattern` may hold one `{}`: an id that never is a secret."""

    name: str
    pattern: str
    type: str
    owner: str
    lifetime: str
    holds: str

    def __call__(self, part: str = "") -> str:
        return self.pattern.replace("{}", part)


_REGISTRY, _POOL, _EVENTS, _WORKERS = "sessions", "proxies", "events", "worker_api"
_FOR_EVER = "until deleted"

SESSION = Key("session", "session:{}", "hash", _REGISTRY, "until the session is deleted", "the session's record")
SESSION_TEMP = Key("session_temp", "session:temp:{}", "string", _REGISTRY, "until connected or released",
                   "temporary binding: the proxy reserved before the first scan")  # fmt: skip
SESSION_QR = Key("session_qr", "session:qr:{}", "string", _WORKERS, "until the code expires or the phone connects",
                 "JSON {qr, expiresAt}")  # fmt: skip
SESSION_EVENTS = Key("session_events", "session:events:{}", "stream", _EVENTS, "newest 500; until deleted",
                     "what happened to this session; entry ids are journal numbers")  # fmt: skip
SESSION_LOCK = Key("session_lock", "session:{}:lock", "string", _REGISTRY, "30 seconds, renewed",
                   "token of the process that starts or stops this session's worker")  # fmt: skip
SESSION_COMMANDS = Key("session_commands", "session:commands:{}", "hash", _WORKERS, "until answered; an hour",
                       "commands the worker has not answered yet")  # fmt: skip
SESSION_DELETED = Key("session_deleted", "session:deleted:{}", "string", _REGISTRY, "DELETED_KEEP_DAYS",
                      "tombstone: when it was deleted")  # fmt: skip
SESSIONS_ALL = Key("sessions_all", "sessions:all", "sorted set", _REGISTRY, _FOR_EVER, "session ids by creation time")
SESSIONS_ACTIVE = Key("sessions_active", "sessions:active", "set", _REGISTRY, _FOR_EVER,
                      "sessions linked to a phone that are meant to run")  # fmt: skip
SESSIONS_UNCONFIRMED = Key("sessions_unconfirmed", "sessions:unconfirmed", "sorted set", _REGISTRY, _FOR_EVER,
                           "half-made sessions by the time they are removed")  # fmt: skip
SESSIONS_UNSCANNED = Key("sessions_unscanned", "sessions:unscanned", "sorted set", _REGISTRY, _FOR_EVER,
                         "sessions nobody scanned yet, by the time their slot is given back")  # fmt: skip
SESSIONS_WAITING = Key("sessions_waiting", "sessions:waiting", "set", _REGISTRY, _FOR_EVER,
                       "sessions whose proxy failed and that wait for a free slot")  # fmt: skip
SESSIONS_NUMBER = Key("sessions_number", "sessions:number", "string", _REGISTRY, _FOR_EVER, "last worker_<n> given")
PROVISION_TOKEN = Key("provision_token", "provision:token:{}", "string", _REGISTRY, "10 minutes",
                      "session made for one provisioning call: a repeat after a lost answer finds it")  # fmt: skip
LEADER = Key("leader", "leader", "string", _REGISTRY, "9 seconds, renewed", "the orchestrator that leads")
ORCHESTRATORS = Key("orchestrators", "orchestrators", "sorted set", _REGISTRY, "90 seconds after the last sign",
                    "orchestrators by when they were last seen")  # fmt: skip
PHONE_PROXY = Key("phone_proxy", "phone:proxy:{}", "string", _REGISTRY, "until forgotten", "sticky binding")
PHONE_SESSION = Key("phone_session", "phone:session:{}", "set", _REGISTRY, _FOR_EVER,
                    "sessions of this phone (at most MAX_SESSIONS_PER_PHONE)")  # fmt: skip
PHONE = Key("phone", "phone:{}", "hash", _REGISTRY, "until forgotten", "firstConnectedAt: the age that trust counts")

PROXIES_ALL = Key("proxies_all", "proxies:all", "set", _POOL, _FOR_EVER, "all proxy ids")
PROXIES_AVAILABLE = Key("proxies_available", "proxies:available", "sorted set", _POOL, _FOR_EVER,
                        "proxies that are active and have a free slot, by load; derived in every script")  # fmt: skip
PROXIES_CHECKS = Key("proxies_checks", "proxies:checks", "sorted set", _POOL, _FOR_EVER, "proxies by their next check")
PROXIES_DRAINING = Key("proxies_draining", "proxies:draining", "set", _POOL, "while not empty",
                       "proxies that are removed as soon as their sessions are elsewhere")  # fmt: skip
PROXY = Key("proxy", "proxy:{}", "hash", _POOL, "until removed", "address with password, health, latency, exit IP")
PROXY_SESSIONS = Key("proxy_sessions", "proxy:sessions:{}", "set", _POOL, _FOR_EVER,
                     "sessions that hold a slot: the load is the size of this set")  # fmt: skip
PROXY_PHONES = Key("proxy_phones", "proxy:phones:{}", "set", _POOL, _FOR_EVER, "phones bound to this proxy")
COUNTER_PROXY = Key("counter_proxy", "counter:proxy:{}", "string", _POOL, _FOR_EVER,
                    "slots used, written from the set's size, never counted up or down")  # fmt: skip
PROXY_STATUS = Key("proxy_status", "proxy:status:{}", "string", _POOL, "until removed", "active, bad or testing")
PROXY_BAD_AT = Key("proxy_bad_at", "proxy:bad_at:{}", "string", _POOL, "while bad", "since when, ms")

EVENTS_NUMBER = Key("events_number", "events:number", "string", _EVENTS, _FOR_EVER, "last journal number given")
EVENTS_JOURNAL = Key("events_journal", "events:journal", "stream", _EVENTS, "JOURNAL_LENGTH, JOURNAL_KEEP_DAYS",
                     "everything that happened; the entry id is the number")  # fmt: skip
WEBHOOKS_ALL = Key("webhooks_all", "webhooks:all", "sorted set", _EVENTS, _FOR_EVER, "webhook ids by creation time")
WEBHOOKS_CHANGED = Key("webhooks_changed", "webhooks:changed", "string", _EVENTS, _FOR_EVER,
                       "counts changes of any webhook: whoever delivers looks again")  # fmt: skip
WEBHOOK = Key("webhook", "webhook:{}", "hash", _EVENTS, "until the webhook is deleted",
              "address, filters, secret; cursor: everything up to this journal number is settled")  # fmt: skip
WEBHOOK_PARKED = Key("webhook_parked", "webhook:parked:{}", "hash", _EVENTS, "while not empty",
                     "sessions whose events are refused while others are taken: tries, since, next try")  # fmt: skip
WEBHOOK_WAITING = Key("webhook_waiting", "webhook:waiting:{}", "sorted set", _EVENTS, "while not empty",
                      "<webhook>:<session>: events of a parked session by number")  # fmt: skip
WEBHOOK_DEAD = Key("webhook_dead", "webhook:dead:{}", "hash", _EVENTS, "newest WEBHOOK_DEAD_LETTERS",
                   "number → event that was given up, with reason")  # fmt: skip
WEBHOOK_DEAD_ORDER = Key("webhook_dead_order", "webhook:dead:order:{}", "sorted set", _EVENTS,
                         "newest WEBHOOK_DEAD_LETTERS", "the same numbers in order")  # fmt: skip
SESSION_METADATA_KEPT = Key("session_metadata_kept", "session:deleted:metadata:{}", "string", _REGISTRY,
                            "DELETED_KEEP_DAYS", "metadata of a deleted session, for webhooks")  # fmt: skip
COMMAND_RESULT = Key("command_result", "command:result:{}", "string", _WORKERS, "10 minutes", "a worker's answer")
WAKE = Key("wake", "wake", "channel", _WORKERS, "-", "session ids whose waiting claim should look again")
RECONCILE = Key("reconcile", "wake:reconcile", "channel", _REGISTRY, "-", "session ids to compare at once")

_GATEWAY, _DISPATCHER = "gateway", "dispatcher"
MESSAGE = Key("message", "message:{}", "hash", _GATEWAY, "MESSAGE_KEEP_DAYS after its end", "a message and its story")
MESSAGES_ALL = Key("messages_all", "messages:all", "sorted set", _GATEWAY, "MESSAGE_KEEP_DAYS", "ids by accept time")
MESSAGES_NUMBER = Key("messages_number", "messages:number", "string", _GATEWAY, _FOR_EVER, "last order number given")
MESSAGES_EXPIRING = Key("messages_expiring", "messages:expiring", "sorted set", _GATEWAY, "until sent or ended",
                        "messages with an expiry, by its time")  # fmt: skip
MESSAGES_DEAD = Key("messages_dead", "messages:dead", "sorted set", _DISPATCHER, "MESSAGE_KEEP_DAYS",
                    "failed messages by the time they failed; can be driven again")  # fmt: skip
IDEMPOTENCY = Key("idempotency", "idempotency:{}", "string", _GATEWAY, "24 hours", "fingerprint and answer of a key")
RATE = Key("rate", "rate:{}", "string", _GATEWAY, "seconds", "when the next request fits (GCRA)")
GATEWAY_JOBS = Key("gateway_jobs", "gateway:jobs", "sorted set", _GATEWAY, "until routed",
                   "messages without a queue yet (no sender chosen, or planned for later), by due time")  # fmt: skip
QUEUE = Key("queue", "queue:session:{}", "sorted set", _DISPATCHER, "while not empty",
            "a sender's messages that may go next, one per recipient at most, by priority and order")  # fmt: skip
QUEUE_BEHIND = Key("queue_behind", "queue:behind:{}", "sorted set", _DISPATCHER, "while not empty",
                   "<phone>:<recipient>: later messages to a recipient, in order")  # fmt: skip
QUEUE_HEADS = Key("queue_heads", "queue:heads:{}", "hash", _DISPATCHER, "while not empty",
                  "recipient → the one message to it that is under way")  # fmt: skip
QUEUE_SIZE = Key("queue_size", "queue:size:{}", "set", _DISPATCHER, "while not empty",
                 "all messages of a sender that are not in its outbox yet")  # fmt: skip
LANE = Key("lane", "lane:{}", "hash", _DISPATCHER, "until the phone is forgotten",
           "a phone's pacing: limits, instants, counts, next due time")  # fmt: skip
LANE_MINUTE = Key("lane_minute", "lane:minute:{}", "list", _DISPATCHER, "as long as the per-minute limit",
                  "times of the last sends, newest first")  # fmt: skip
LANE_INFLIGHT = Key("lane_inflight", "lane:inflight:{}", "set", _DISPATCHER, "while not empty",
                    "messages in the outbox or with a worker")  # fmt: skip
LANE_FLOOD = Key("lane_flood", "lane:flood:{}", "string", _GATEWAY, "2 minutes", "<phone>:<minute>: accepted messages")
LANES_DUE = Key("lanes_due", "lanes:due", "sorted set", _DISPATCHER, "while not empty", "phones by next due time")
LIMITS = Key("limits", "limits:{}", "string", _DISPATCHER, "until removed", "overrides (global or a session), JSON")
SESSION_OUTBOX = Key("session_outbox", "session:outbox:{}", "sorted set", _DISPATCHER, "while not empty",
                     "messages its worker may send, by the time they may be claimed")  # fmt: skip
CLAIMS_EXPIRING = Key("claims_expiring", "claims:expiring", "sorted set", _WORKERS, "while not empty",
                      "claimed messages by the end of their lease")  # fmt: skip
OUTBOX_RETRIES = Key("outbox_retries", "outbox:retries", "sorted set", _DISPATCHER, "while not empty",
                     "sessions by the time their outbox is looked at again: a retry is due or nobody came")  # fmt: skip
CLAIMS_TOKEN = Key("claims_token", "claims:token", "string", _WORKERS, _FOR_EVER, "last fencing token given")
CLOCK_SEEN = Key("clock_seen", "clock:seen", "string", _DISPATCHER, _FOR_EVER,
                 "the latest time noted, ms: tells when the clock was set back")  # fmt: skip
ROUTED = Key("routed", "routed:{}", "string", _DISPATCHER, "a day, or until something was sent to it",
             "session chosen for a recipient whose messages still wait")  # fmt: skip
RECIPIENT = Key("recipient", "recipient:{}", "string", _DISPATCHER, "90 days", "session that last talked to it")
STATS_DAY = Key("stats_day", "stats:day:{}", "hash", _DISPATCHER, "40 days", "accepted, sent, failed … of a day")
STATS_TOTAL = Key("stats_total", "stats:total", "hash", _DISPATCHER, _FOR_EVER, "accepted, sent, failed … since ever")
STATS_FAILED = Key("stats_failed", "stats:failed", "hash", _DISPATCHER, _FOR_EVER, "failed messages by code since ever")
STATS_MINUTE = Key("stats_minute", "stats:minute:{}", "hash", _DISPATCHER, "2 days",
                   "the same of a minute; connected and total sessions")  # fmt: skip

_DASHBOARD = "dashboard"
USERS = Key("users", "dashboard:users", "hash", _DASHBOARD, _FOR_EVER,
            "user name → JSON with the scrypt hash of the password")  # fmt: skip
SIGN_IN_TRIES = Key("sign_in_tries", "signin:tries:{}", "string", _DASHBOARD, "15 minutes after the first",
                    "tries to sign in from an address or everywhere; pairing codes asked for by link")  # fmt: skip
SIGN_IN_ENDED = Key("sign_in_ended", "signin:ended:{}", "string", _DASHBOARD, "as long as that sign-in would last",
                    "a sign-in that was ended by signing out")  # fmt: skip

_ACCESS = "http"
API_KEYS = Key("api_keys", "apikeys", "hash", _ACCESS, _FOR_EVER, "key id → JSON: name, SHA-256, rights, limits")
API_KEY_NAMES = Key("api_key_names", "apikeys:names", "hash", _ACCESS, _FOR_EVER, "name → key id: a name means one key")
API_KEYS_USED = Key("api_keys_used", "apikeys:used", "hash", _ACCESS, _FOR_EVER,
                    "key id → when it was last used, written once a minute")  # fmt: skip
AUDIT_LOG = Key("audit_log", "audit:log", "stream", _ACCESS, "newest 100,000; AUDIT_KEEP_DAYS",
                "who changed what, when, with which outcome")  # fmt: skip

_SUPPRESSION = "suppression"
SUPPRESSED = Key("suppressed", "suppressed", "hash", _SUPPRESSION, _FOR_EVER,
                 "recipient → JSON entry; a LID points to its phone")  # fmt: skip
SUPPRESSED_BY_TIME = Key("suppressed_by_time", "suppressed:by_time", "sorted set", _SUPPRESSION, _FOR_EVER,
                         "suppressed numbers by when they were added")  # fmt: skip
OPT_WORD = Key("opt_word", "opt:word:{}", "hash", _SUPPRESSION, "400 days",
               "a recipient's last opt-out or opt-in word: which message, when, answered when")  # fmt: skip
CONSENT = Key("consent", "consent:{}", "sorted set", _SUPPRESSION, _FOR_EVER,
              "a recipient's newest 50 consent notes by their time, JSON {source, at, note, by}")  # fmt: skip
RECIPIENT_WAITING = Key("recipient_waiting", "recipient:waiting:{}", "set", _GATEWAY, "while not empty",
                        "messages to a recipient that have not ended, from all senders")  # fmt: skip
RECIPIENT_DAY = Key("recipient_day", "recipient:day:{}", "string", _DISPATCHER, "2 days",
                    "<day>:<recipient>: messages released to it, where RECIPIENT_CAP_PER_DAY is set")  # fmt: skip

_INBOUND = "inbound"
INBOX = Key(
    "inbox", "inbox:{}", "sorted set", _INBOUND, "INBOX_KEEP_DAYS", "a session's newest 500 chats by last message"
)
INBOX_CHAT = Key("inbox_chat", "inbox:chat:{}", "hash", _INBOUND, "INBOX_KEEP_DAYS after its last message",
                 "<session>:<chat>: name, LID, unread")  # fmt: skip
INBOX_ORDER = Key("inbox_order", "inbox:order:{}", "sorted set", _INBOUND, "INBOX_KEEP_DAYS after its last message",
                  "<session>:<chat>: newest 100 messages by time; ours by message id")  # fmt: skip
INBOX_SAID = Key("inbox_said", "inbox:said:{}", "hash", _INBOUND, "INBOX_KEEP_DAYS after its last message",
                 "<session>:<chat>: what came in, JSON, with edits and reactions")  # fmt: skip
INBOX_LID = Key("inbox_lid", "inbox:lid:{}", "string", _INBOUND, "INBOX_KEEP_DAYS after its last message",
                "<session>:<lid>: the number it belongs to")  # fmt: skip
INBOUND_MEDIA = Key("inbound_media", "inbound:media:{}", "hash", _INBOUND, "INBOUND_MEDIA_KEEP_DAYS",
                    "<session>:<mediaId>: a received file: pending, ready or failed, type, name, size")  # fmt: skip
INBOUND_MEDIA_OF = Key("inbound_media_of", "inbound:media:of:{}", "sorted set", _INBOUND, "INBOUND_MEDIA_KEEP_DAYS",
                       "a session's received files by time, so that they go with it")  # fmt: skip

_SCHEDULER, _BACKUPS = "scheduler", "backups"
JOB = Key("job", "job:{}", "hash", _SCHEDULER, _FOR_EVER,
          "scheduled work: when it is due, who does it until when, how it ended")  # fmt: skip
BACKUPS_OPERATION = Key("backups_operation", "backups:operation", "hash", _BACKUPS, "until the next one",
                        "the backup, restore or export under way, or the last one: progress and result")  # fmt: skip

_ALERTS = "alerts"
ALERTS_STATE = Key("alerts_state", "alerts:state", "hash", _ALERTS, _FOR_EVER,
                   "how far the journal was read; version of the desk")  # fmt: skip
ALERTS_DESK = Key("alerts_desk", "alerts:desk", "hash", _ALERTS, _FOR_EVER,
                  "what stands, is waited out, gathered or folded, JSON each")  # fmt: skip
ALERTS_RECENT = Key("alerts_recent", "alerts:recent", "list", _ALERTS, "newest 500", "alerts, JSON, newest first")
ALERTS_OUTBOX = Key("alerts_outbox", "alerts:outbox", "list", _ALERTS, "until sent; 500 at most",
                    "alerts that wait for Telegram, JSON, oldest first")  # fmt: skip
ALERTS_CHANNEL = Key("alerts_channel", "alerts:channel", "hash", _ALERTS, _FOR_EVER,
                     "who sends now, until when to wait, what is wrong with the channel")  # fmt: skip
INVENTORY_LOW = Key("inventory_low", "inventory:low", "set", _ALERTS, "while low", "stocks below their threshold")
PROFILES = Key("profiles", "profiles", "hash", _REGISTRY, "until used or removed",
               "phone → JSON: an identity in stock for a session to come")  # fmt: skip
PROFILES_ALL = Key("profiles_all", "profiles:all", "sorted set", _REGISTRY, "until used or removed",
                   "phones of the profiles in the order they came")  # fmt: skip

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Key))
