"""The suppression list and what else is known about recipients: consent, today's count, who talked to them last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.messages import Stamp

Source = Literal["word", "hand", "import"]
_CONSENT_NOTES = 50
_REMEMBERED_S = 90 * 86400  # how long recipient:<number> lives after the last word, see `talked`


class Suppressed(msgspec.Struct, frozen=True, kw_only=True):
    """Why a number gets no messages. `phone` is a LID where no number is known."""

    phone: str
    reason: str = ""
    source: str = "hand"
    at: int = 0
    by: str = ""
    note: str = ""
    lid: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What is answered to an opt-out word."""

    id: str
    wa: str
    to: str
    content: str


class OptWord(msgspec.Struct, frozen=True, kw_only=True):
    """An opt-out or opt-in word that a recipient wrote to a session."""

    session: str
    phone: str
    lid: str
    kind: Literal["out", "in"]
    word: str
    wa: str
    at: int
    answer: Answer | None = None


class ConsentNote(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    at: int
    note: str = ""
    by: str = ""


@dataclass(frozen=True, kw_only=True)
class KnownRecipient:
    """Everything that decides whether a number may be written to."""

    suppressed: Suppressed | None
    cap: int
    today: int
    resets_at: int
    waiting: int
    last_session: str
    last_at: int | None
    routed_session: str
    consent: list[ConsentNote]


class SuppressionStore:
    def __init__(self, connection: Connection, stamp: Stamp, *, recipient_cap: int = 0) -> None:
        self._connection = connection
        self._stamp = stamp
        self._cap = recipient_cap

    async def _run(self, script: str, **arguments: Any) -> dict[str, Any]:
        return await scripts.run(self._connection, script, {**self._stamp.arguments(), **arguments})

    async def add(self, entry: Suppressed) -> tuple[bool, int]:
        """(is it new, how many waiting messages were cancelled)."""
        given = msgspec.to_builtins(entry)
        fields = {name: given.get(name, "") for name in ("phone", "lid", "reason", "source", "by", "note")}
        answer = await self._run("suppress", **fields, at=entry.at, cursor="0")
        cancelled = int(answer["cancelled"])
        # the list itself holds since the first call; should we end here, the rest is cancelled at its release
        rest = answer
        while rest["cursor"] != "0":
            rest = await self._run("suppress", **fields, at=entry.at, cursor=rest["cursor"])
            cancelled += int(rest["cancelled"])
        return bool(answer["added"]), cancelled

    async def remove(self, phone: str, *, by: str) -> str:
        """The number as it stood on the list; raises NotSuppressed."""
        return str((await self._run("unsuppress", phone=phone, by=by))["phone"])

    async def word(self, word: OptWord) -> dict[str, Any]:
        """What a recipient's word changed; see opt_word.lua."""
        given = msgspec.to_builtins(word)
        answer = await self._run("opt_word", **given, cursor="0")
        cursor = answer["cursor"]
        while cursor != "0":
            cursor = (await self._run("opt_word", **given, cursor=cursor))["cursor"]
        return answer

    # reading ---------------------------------------------------------------------------------------------------
    async def get(self, phone: str) -> Suppressed | None:
        text = await self._connection.call("HGET", keys.SUPPRESSED(), phone)
        found = _entry(text) if text else None
        if found and found.phone != phone:
            text = await self._connection.call("HGET", keys.SUPPRESSED(), found.phone)
            return _entry(text) if text else None
        return found

    async def newest(self, *, start: int, limit: int) -> list[Suppressed]:
        phones = await self._connection.call("ZREVRANGE", keys.SUPPRESSED_BY_TIME(), start, start + limit - 1)
        if not phones:
            return []
        texts = await self._connection.call("HMGET", keys.SUPPRESSED(), *phones)
        return [_entry(text) for text in texts if text]

    async def each(self) -> AsyncIterator[Suppressed]:
        """All of them, in no order; what stays on the list while this goes on is told, perhaps twice."""
        cursor = "0"
        while True:
            cursor, fields = await self._connection.call("HSCAN", keys.SUPPRESSED(), cursor, "COUNT", 1000)
            for phone, text in fields.items():
                entry = _entry(text)
                if entry.phone == phone:  # a LID points to its phone
                    yield entry
            if int(cursor) == 0:
                return

    async def count(self) -> int:
        return int(await self._connection.call("ZCARD", keys.SUPPRESSED_BY_TIME()))

    # recipients ------------------------------------------------------------------------------------------------
    async def add_consent(self, phone: str, note: ConsentNote) -> None:
        """The same note twice is one note; a trim that is lost is made up for by the next."""
        await asyncio.gather(
            self._connection.call("ZADD", keys.CONSENT(phone), note.at, msgspec.json.encode(note).decode()),
            self._connection.call("ZREMRANGEBYRANK", keys.CONSENT(phone), 0, -_CONSENT_NOTES - 1),
        )

    async def recipient(self, phone: str) -> KnownRecipient:
        call = self._connection.call
        suppressed, today, waiting, last, left_s, routed, notes = await asyncio.gather(
            self.get(phone),
            call("GET", keys.RECIPIENT_DAY(f"{self._stamp.today}:{phone}")),
            call("SCARD", keys.RECIPIENT_WAITING(phone)),
            call("GET", keys.RECIPIENT(phone)),
            call("TTL", keys.RECIPIENT(phone)),
            call("GET", keys.ROUTED(phone)),
            call("ZREVRANGE", keys.CONSENT(phone), 0, -1),
        )
        now = int(self._stamp.arguments()["now"])
        return KnownRecipient(
            suppressed=suppressed,
            cap=self._cap,
            today=int(today or 0),
            resets_at=self._stamp.tomorrow_ms(),
            waiting=int(waiting),
            last_session=last or "",
            last_at=now - (_REMEMBERED_S - int(left_s)) * 1000 if last and int(left_s) > 0 else None,
            routed_session=routed or "",
            consent=[msgspec.json.decode(text, type=ConsentNote) for text in notes],
        )


def _entry(text: str) -> Suppressed:
    return msgspec.json.decode(text, type=Suppressed)
