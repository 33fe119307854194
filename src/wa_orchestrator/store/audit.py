"""The audit log in the store: who changed what, when, on what, with which outcome. Bounded by length and age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wa_orchestrator.clock import iso
from wa_orchestrator.store import keys
from wa_orchestrator.store.connection import Connection

_LONGEST = 100_000


@dataclass(frozen=True, kw_only=True)
class AuditLine:
    """`what` is the call's line in the table of rights, `on` the ids in its path. Never a body: it may hold secrets."""

    by: str
    what: str
    on: str = ""
    status: int = 0
    code: str = ""
    address: str = ""
    request: str = ""
    place: str = ""
    at: int = 0

    @property
    def outcome(self) -> str:
        return "done" if self.status < 400 else "refused" if self.status < 500 else "failed"

    def view(self) -> dict[str, Any]:
        return {
            "place": self.place,
            "at": iso(self.at),
            "by": self.by,
            "what": self.what,
            "on": self.on or None,
            "outcome": self.outcome,
            "status": self.status,
            "code": self.code or None,
            "address": self.address or None,
            "requestId": self.request or None,
        }


class AuditStore:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, line: AuditLine) -> None:
        """The store's own clock gives the time: several servers write here."""
        fields = ("by", line.by, "what", line.what, "on", line.on, "status", line.status, "code", line.code,
                  "address", line.address, "request", line.request)  # fmt: skip
        await self._connection.call("XADD", keys.AUDIT_LOG(), "MAXLEN", "~", _LONGEST, "*", *fields)

    async def newest(self, *, before: str = "", limit: int) -> list[AuditLine]:
        """Newest first, from just after the place `before`."""
        start = f"({before}" if before else "+"
        rows = await self._connection.call("XREVRANGE", keys.AUDIT_LOG(), start, "-", "COUNT", limit)
        return [_line(place, fields) for place, fields in rows]

    async def forget(self, *, before_ms: int) -> int:
        return int(await self._connection.call("XTRIM", keys.AUDIT_LOG(), "MINID", f"{before_ms}-0"))


def _line(place: str, fields: dict[str, str] | list[str]) -> AuditLine:
    found = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
    return AuditLine(
        by=found["by"],
        what=found["what"],
        on=found.get("on", ""),
        status=int(found.get("status") or 0),
        code=found.get("code", ""),
        address=found.get("address", ""),
        request=found.get("request", ""),
        place=place,
        at=int(place.split("-", maxsplit=1)[0]),
    )
