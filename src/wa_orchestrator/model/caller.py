"""Who calls, and what they may do: the rights of an API key or of a signed-in person. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from wa_orchestrator.errors import Forbidden, InvalidBody


class Right(StrEnum):
    """What a key may do. `admin` holds all; `manage` holds `read`; `send` holds nothing else."""

    READ = "read"
    SEND = "send"
    MANAGE = "manage"
    ADMIN = "admin"


ALL_RIGHTS = frozenset(Right)
# who changes sessions must see them; who only sends must not see what others sent
_INCLUDES = {
    Right.READ: frozenset({Right.READ}),
    Right.SEND: frozenset({Right.SEND}),
    Right.MANAGE: frozenset({Right.MANAGE, Right.READ}),
    Right.ADMIN: ALL_RIGHTS,
}


def with_included(rights: Iterable[Right]) -> frozenset[Right]:
    return frozenset(included for right in rights for included in _INCLUDES[right])


@dataclass(frozen=True, kw_only=True)
class Caller:
    """A key or a person. `by` names them in the audit trail and in the messages they send."""

    by: str
    rights: frozenset[Right] = ALL_RIGHTS
    sessions: frozenset[str] | None = None  # None: all of them
    key_id: str = ""  # of a kept key; empty for API_KEY and for people
    rate_per_minute: int = 0  # 0: no limit of its own
    rate_burst: int = 1

    @property
    def limited(self) -> bool:
        return self.sessions is not None

    def may(self, right: Right) -> bool:
        return right in self.rights

    def sees(self, session_id: str | None) -> bool:
        """Whether what belongs to this session (None or empty: to none) concerns this caller."""
        return self.sessions is None or (bool(session_id) and session_id in self.sessions)

    def sees_message(self, *, session_id: str | None, by: str) -> bool:
        """Who may only send sees their own messages, whoever may read sees those of their sessions."""
        if not self.may(Right.READ):
            return by == self.by
        return by == self.by or self.sees(session_id)

    def check_session(self, session_id: str) -> None:
        if not self.sees(session_id):
            raise Forbidden("This key is not for that session.", details={"sessionId": session_id[:64]})

    def sending_session(self, session_id: str | None, *, phone_named: bool) -> str | None:
        """The session a message of this caller goes out by; raises when it is not theirs."""
        if self.sessions is None:
            return session_id
        if session_id is not None:
            self.check_session(session_id)
            return session_id
        if len(self.sessions) == 1 and not phone_named:
            return next(iter(self.sessions))
        raise InvalidBody(
            "This key is limited to sessions: name one of them in sessionId.", details={"field": "sessionId"}
        )


FIRST_KEY = Caller(by="api")
