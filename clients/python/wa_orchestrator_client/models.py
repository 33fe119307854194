"""What the server answers, as frozen values. `raw` holds the whole answer: a newer server may tell more."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar, get_type_hints

T = TypeVar("T")
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Answer:
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True, kw_only=True)
class ProxyRef(Answer):
    id: str
    host: str
    port: int


@dataclass(frozen=True, kw_only=True)
class Provisioned(Answer):
    session_id: str
    status: str
    proxy: ProxyRef | None = None
    created_at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Today(Answer):
    sent: int = 0
    limit: int | None = None
    waiting: int = 0


@dataclass(frozen=True, kw_only=True)
class Session(Answer):
    session_id: str
    status: str
    reason: str | None = None
    wanted: str = ""
    phone: str | None = None
    label: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)
    proxy: ProxyRef | None = None
    today: Today | None = None
    created_at: datetime | None = None
    connected_at: datetime | None = None
    last_ping: datetime | None = None

    @property
    def connected(self) -> bool:
        return self.status == "connected"


@dataclass(frozen=True, kw_only=True)
class Qr(Answer):
    qr: str
    image: str
    expires_at: datetime


@dataclass(frozen=True, kw_only=True)
class PairingCode(Answer):
    code: str
    phone: str


@dataclass(frozen=True, kw_only=True)
class Deleted(Answer):
    session_id: str
    deleted: bool
    already: bool = False


@dataclass(frozen=True, kw_only=True)
class Queued(Answer):
    """Accepted: it will be sent exactly once, or end with a reason. `replayed`: an earlier call had the same key."""

    message_id: str
    session_id: str | None = None
    estimated_send_at: datetime | None = None
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class BulkItem(Answer):
    """One item's result: a message id, or the code and sentence that tell why not."""

    queued: bool
    message_id: str | None = None
    session_id: str | None = None
    estimated_send_at: datetime | None = None
    error: Json | None = None


@dataclass(frozen=True, kw_only=True)
class BulkResult(Answer):
    accepted: int
    rejected: int
    results: tuple[BulkItem, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Message(Answer):
    message_id: str
    to: str
    status: str
    session_id: str | None = None
    reason: str | None = None
    kind: str | None = None
    reference: str | None = None
    accepted_at: datetime | None = None
    sent_at: datetime | None = None
    delivered_at: datetime | None = None
    read_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """Nothing more is done for it; a sent one may still be delivered and read."""
        return self.status in {"sent", "delivered", "read", "played", "failed", "expired", "cancelled"}


@dataclass(frozen=True, kw_only=True)
class MessageState(Answer):
    message_id: str
    status: str


@dataclass(frozen=True, kw_only=True)
class Upload(Answer):
    media_id: str
    size_bytes: int


@dataclass(frozen=True, kw_only=True)
class Event(Answer):
    """Something that happened. Numbers grow by one per event of the whole installation."""

    number: int
    type: str
    session_id: str | None = None
    timestamp: datetime | None = None
    data: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EventsPage(Answer):
    """A piece of the journal. Go on after `last`; `gap` names numbers that are not kept any more."""

    last: int
    events: tuple[Event, ...] = ()
    gap: Json | None = None


@dataclass(frozen=True, kw_only=True)
class Webhook(Answer):
    """Where events are posted. `secret` is shown once, in the answer that made it."""

    id: str
    url: str
    types: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    enabled: bool = True
    secret: str | None = field(default=None, repr=False)


_UPPER = re.compile(r"_([a-z])")


def camel(name: str) -> str:
    return _UPPER.sub(lambda found: found[1].upper(), name)


def read(kind: type[T], body: Json) -> T:
    """`body` as `kind`; names in camelCase, unknown ones passed over."""
    hints = get_type_hints(kind)
    given: Json = {"raw": body}
    for one in fields(kind):  # type: ignore[arg-type]
        name = camel(one.name)
        if one.name != "raw" and name in body:
            given[one.name] = _value(hints[one.name], body[name])
    return kind(**given)


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    kinds = [hint, *getattr(hint, "__args__", ())]
    if datetime in kinds:
        return datetime.fromisoformat(value)
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, Answer):
            return tuple(read(kind, item) for item in value) if isinstance(value, list) else read(kind, value)
    return value
