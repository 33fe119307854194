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
EVENTS_JOURNAL = Key("events_journal", "events:journal", "stream", _EVENTS, "newest 100,000",
                     "everything that happened; the entry id is the number")  # fmt: skip
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
IDEMPOTENCY = Key("idempotency", "idempotency:{}", "hash", _GATEWAY, "24 hours", "fingerprint and answer of a key")
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
ROUTED = Key("routed", "routed:{}", "string", _DISPATCHER, "a day, or until something was sent to it",
             "session chosen for a recipient whose messages still wait")  # fmt: skip
RECIPIENT = Key("recipient", "recipient:{}", "string", _DISPATCHER, "90 days", "session that last talked to it")
STATS_DAY = Key("stats_day", "stats:day:{}", "hash", _DISPATCHER, "40 days", "accepted, sent, failed … of a day")
STATS_MINUTE = Key("stats_minute", "stats:minute:{}", "hash", _DISPATCHER, "2 days",
                   "the same of a minute; connected and total sessions")  # fmt: skip

_DASHBOARD = "dashboard"
USERS = Key("users", "dashboard:users", "hash", _DASHBOARD, _FOR_EVER,
            "user name → JSON with the scrypt hash of the password")  # fmt: skip
SIGN_IN_TRIES = Key("sign_in_tries", "signin:tries:{}", "string", _DASHBOARD, "15 minutes after the first",
                    "tries to sign in from an address or everywhere; pairing codes asked for by link")  # fmt: skip
SIGN_IN_ENDED = Key("sign_in_ended", "signin:ended:{}", "string", _DASHBOARD, "as long as that sign-in would last",
                    "a sign-in that was ended by signing out")  # fmt: skip

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Key))


def lua_builders(names: set[str]) -> str:
    """The same builders for the scripts, those named: `K.session(id)`, `K.proxies_all()`."""
    lines = ["local K = {}"]
    for key in (key for key in ALL if key.name in names):
        before, _, after = key.pattern.partition("{}")
        if "{}" in key.pattern:
            body = f"'{before}' .. a" + (f" .. '{after}'" if after else "")
            lines.append(f"K.{key.name} = function(a) return {body} end")
        else:
            lines.append(f"K.{key.name} = function() return '{key.pattern}' end")
    return "\n".join(lines)
