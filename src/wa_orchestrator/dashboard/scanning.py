"""Scanning a session's code: how far it is, and links that let a number's owner do it, and nothing else."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.clock import iso
from wa_orchestrator.dashboard.looks import shown_phone
from wa_orchestrator.dashboard.tokens import Signer
from wa_orchestrator.dashboard.words import Words
from wa_orchestrator.errors import NotFound
from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.rooms import Rooms

_ENDED = frozenset({Status.FAILED, Status.LOGGED_OUT, Status.STOPPED})
_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Link:
    path: str
    ends_at: int


class ScanLinks:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._signer = Signer(rooms.settings.webhook_secret, "scan-link")

    def make(self, session: Session) -> Link:
        ends_at = self._rooms.clock.now_ms() + self._rooms.settings.scan_link_hours * _HOUR_MS
        # the time it was made is part of it: a later session of the same name is another one
        token = self._signer.seal({"id": session.session_id, "made": session.created_at}, ends_at=ends_at)
        return Link(f"/scan/{token}", ends_at)

    async def session_of(self, token: str) -> Session:
        """The one session this link is for; raises NotFound for every other word."""
        content = self._signer.open(token, now_ms=self._rooms.clock.now_ms())
        session = await self._rooms.store.sessions.get(str(content["id"])) if content else None
        if not content or not session or session.wanted is Wanted.DELETED or session.created_at != content["made"]:
            raise NotFound("This link is no longer valid. Ask for a new one.")
        return session


def step_of(session: Session, *, has_code: bool) -> str:
    """preparing → scan → linking → connected, or ended."""
    if session.status is Status.CONNECTED:
        return "connected"
    if session.status in _ENDED:
        return "ended"
    if has_code and not session.linked:
        return "scan"
    return "linking" if session.linked else "preparing"


async def scan_state(rooms: Rooms, session: Session, words: Words) -> dict[str, Any]:
    """What a scan page shows; the same for the operator and for the number's owner."""
    code = await rooms.store.sessions.qr(session.session_id)
    step = step_of(session, has_code=code is not None)
    return {
        "step": step,
        "status": session.status.value,
        "statusText": words(f"status.{session.status}"),
        "reasonText": words.reason(session.reason),
        "code": hashlib.sha256(code["qr"].encode()).hexdigest()[:12] if code and step == "scan" else None,
        "expiresAt": iso(code["expiresAt"]) if code and step == "scan" else None,
        "phone": shown_phone(session.phone) if session.phone else None,
        "now": iso(rooms.clock.now_ms()),
    }
