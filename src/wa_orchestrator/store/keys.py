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
SESSION_LOCK = Key("session_lock", "session:{}:lock", "string", _REGISTRY, "a minute, renewed",
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
PHONE_PROXY = Key("phone_proxy", "phone:proxy:{}", "string", _REGISTRY, "until forgotten", "sticky binding")
PHONE_SESSION = Key("phone_session", "phone:session:{}", "set", _REGISTRY, _FOR_EVER,
                    "sessions of this phone (at most MAX_SESSIONS_PER_PHONE)")  # fmt: skip
PHONE = Key("phone", "phone:{}", "hash", _REGISTRY, "until forgotten", "firstConnectedAt: the age that trust counts")

PROXIES_ALL = Key("proxies_all", "proxies:all", "set", _POOL, _FOR_EVER, "all proxy ids")
PROXIES_AVAILABLE = Key("proxies_available", "proxies:available", "sorted set", _POOL, _FOR_EVER,
                        "proxies that are active and have a free slot, by load; derived in every script")  # fmt: skip
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

ALL = tuple(value for value in list(globals().values()) if isinstance(value, Key))


def lua_builders() -> str:
    """The same builders for the scripts: `K.session(id)`, `K.proxies_all()`."""
    lines = ["local K = {}"]
    for key in ALL:
        before, _, after = key.pattern.partition("{}")
        if "{}" in key.pattern:
            body = f"'{before}' .. a" + (f" .. '{after}'" if after else "")
            lines.append(f"K.{key.name} = function(a) return {body} end")
        else:
            lines.append(f"K.{key.name} = function() return '{key.pattern}' end")
    return "\n".join(lines)
