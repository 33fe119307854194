"""A webhook: where events are sent, which ones, and how its receiver does. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

NATIVE = "native"


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A subscription and the state of its delivery."""

    webhook_id: str
    url: str  # may hold credentials: never shown, see events/targets.py
    secret: str = ""
    label: str = ""
    types: tuple[str, ...] = ()  # empty: all; `message.*` stands for all that begin so
    sessions: tuple[str, ...] = ()  # empty: all
    metadata: dict[str, str] = field(default_factory=dict)  # what a session's metadata must hold
    headers: dict[str, str] = field(default_factory=dict)  # sent along; values are secrets too
    format: str = NATIVE
    options: dict[str, str] = field(default_factory=dict)  # what its format needs beside; see waha/subscriptions.py
    enabled: bool = True
    disabled_reason: str = ""
    by: str = ""
    created_at: int = 0
    updated_at: int = 0
    version: int = 0
    # how its delivery does
    cursor: int = 0
    waiting: int = 0
    failures: int = 0  # in a row
    failing_since: int = 0
    next_try: int = 0
    last_status: int | None = None
    last_error: str = ""
    last_try_at: int = 0
    last_delivered_at: int = 0
    last_number: int = 0
    delivered: int = 0
    failed: int = 0
    dead: int = 0  # ever
    dead_now: int = 0
    dead_dropped: int = 0

    @cached_property
    def _wanted(self) -> tuple[frozenset[str], tuple[str, ...]]:
        exact = frozenset(kind for kind in self.types if not kind.endswith("*"))
        return exact, tuple(kind.removesuffix("*") for kind in self.types if kind.endswith("*"))

    @cached_property
    def _sessions(self) -> frozenset[str]:
        return frozenset(self.sessions)

    def wants(self, kind: str, session_id: str) -> bool:
        """By type and session; what the metadata say is asked apart, for it has to be looked up."""
        if self._sessions and session_id not in self._sessions:
            return False
        exact, beginnings = self._wanted
        return not self.types or kind in exact or kind.startswith(beginnings)

    def wants_session_like(self, metadata: dict[str, str]) -> bool:
        return all(metadata.get(name) == value for name, value in self.metadata.items())
