"""A session: one linked WhatsApp device, its states and the moves between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from wa_orchestrator.errors import InvalidSessionId

_SESSION_ID = re.compile(r"^[A-Za-z0-9_-]{1,64}$")


class Status(StrEnum):
    PENDING = "pending"
    QR_READY = "qr_ready"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    DISCONNECTED = "disconnected"
    UNHEALTHY = "unhealthy"
    LOGGED_OUT = "logged_out"
    FAILED = "failed"
    STOPPED = "stopped"


# what only a running worker can have reported
SAYS_IT_LIVES = frozenset({Status.CONNECTED, Status.QR_READY})


class Wanted(StrEnum):
    """What the operator wants of a session's worker."""

    RUNNING = "running"
    STOPPED = "stopped"
    DELETED = "deleted"


# What a worker's report may do. An ended session (logged out, failed, stopped) only moves again when it is started
# on purpose, and a connected one never goes back to showing a code: late and repeated events change nothing.
_LIVE = frozenset({Status.PENDING, Status.QR_READY, Status.CONNECTED, Status.RECONNECTING, Status.DISCONNECTED,
                   Status.UNHEALTHY})  # fmt: skip
MOVES: dict[Status, frozenset[Status]] = {
    Status.PENDING: _LIVE | {Status.LOGGED_OUT, Status.FAILED},
    Status.QR_READY: _LIVE | {Status.LOGGED_OUT, Status.FAILED},
    Status.CONNECTED: frozenset({Status.CONNECTED, Status.RECONNECTING, Status.DISCONNECTED, Status.UNHEALTHY,
                                 Status.LOGGED_OUT, Status.FAILED}),
    Status.RECONNECTING: (_LIVE - {Status.PENDING, Status.QR_READY}) | {Status.LOGGED_OUT, Status.FAILED},
    Status.DISCONNECTED: _LIVE | {Status.LOGGED_OUT, Status.FAILED},
    Status.UNHEALTHY: _LIVE | {Status.LOGGED_OUT, Status.FAILED},
    Status.LOGGED_OUT: frozenset({Status.LOGGED_OUT}),
    Status.FAILED: frozenset({Status.FAILED}),
    Status.STOPPED: frozenset({Status.STOPPED}),
}  # fmt: skip


_BEFORE_THE_SCAN = frozenset({Status.PENDING, Status.QR_READY})


def states_that_may_become(target: Status, *, linked: bool = False) -> frozenset[Status]:
    """From which states an event may move a session to `target`.

    One that is linked to a phone never shows a code again before it was logged out. One that is not yet linked may
    lose its connection and then gets a new code.
    """
    sources = frozenset(source for source, targets in MOVES.items() if target in targets)
    if target not in _BEFORE_THE_SCAN:
        return sources
    return sources & {target} if linked else sources | {Status.RECONNECTING}


def checked_session_id(text: str) -> str:
    """The id, or an error: it becomes a folder, a container name and part of store keys."""
    if not _SESSION_ID.fullmatch(text):
        raise InvalidSessionId(details={"field": "sessionId"})
    return text


@dataclass(frozen=True, kw_only=True)
class Session:
    """A session's record."""

    session_id: str
    status: Status
    wanted: Wanted
    created_at: int
    proxy_id: str = ""  # empty: holds no slot at present
    proxy_pinned: bool = False  # given by hand: wins over the phone's binding
    phone: str = ""  # as connected, else as provisioned
    expected_phone: str = ""
    label: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    reason: str = ""
    jid: str = ""
    lid: str = ""
    push_name: str = ""  # the name its owner shows to others
    fingerprint: str = ""
    started_at: int | None = None
    connected_at: int | None = None
    last_ping: int | None = None
    last_disconnect_at: int | None = None
    last_disconnect_reason: str = ""
    last_disconnect_code: str = ""
    restarts: int = 0
    run_order: int = 0  # grows with every ordered (re)start; a worker with an older one is replaced
    worker_rss_bytes: int | None = None
    connection: str = ""
    waiting_for_proxy: bool = False
    ran_order: int = 0  # the order its worker was last started with, as the leader told; 0: stopped
    start_error: str = ""
    start_error_at: int = 0
    maker: str = ""  # the server that provisioned it
    forget: bool = False  # deletion also drops the phone's binding
    discard_auth: bool = False  # the next start begins with an empty folder

    @property
    def linked(self) -> bool:
        """Was connected at least once and not logged out since: needs no scan."""
        return bool(self.jid)


class Glance(NamedTuple):
    """What counting and choosing need of a session."""

    session_id: str
    status: Status
    wanted: Wanted
    phone: str


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A session and what its last pings said."""

    session: Session
    unacked: int = 0
    last_received_at: int | None = None
    rescued_at: int | None = None
