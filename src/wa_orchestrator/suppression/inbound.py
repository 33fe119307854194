"""Listens for opt-out and opt-in words among the messages that come in."""

from __future__ import annotations

import secrets
from typing import Any

import msgspec
import structlog

from wa_orchestrator.gateway.content import ContentReader, wa_id_of
from wa_orchestrator.gateway.recipient import recipient_jid
from wa_orchestrator.logs import short_phone
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.suppression import Answer, OptWord
from wa_orchestrator.suppression.words import LONGEST_REPLY, OptWords

log = structlog.get_logger()


class OptWordListener:
    def __init__(self, *, store: Store, settings: Settings) -> None:
        self._store = store
        self._words = OptWords(out=settings.opt_out_words, in_=settings.opt_in_words)
        content = ContentReader(max_text=LONGEST_REPLY, max_media_bytes=settings.max_media_bytes)
        reply = settings.opt_out_reply
        self._reply = msgspec.json.encode(content.read(reply)).decode() if reply else ""

    async def take(self, session_id: str, data: dict[str, Any], *, at: int) -> str:
        """What changed: `out`, `in`, or nothing. Called before the event is remembered, so that none is lost."""
        word = self.heard(session_id, data, at=at)
        if word is None:
            return ""
        answer = await self._store.suppression.word(word)
        outcome = str(answer["outcome"])
        log.info(
            "opt_word",
            session_id=session_id,
            phone=short_phone(word.phone),
            outcome=outcome,
            cancelled=answer["cancelled"],
            answered=answer["answered"],
        )
        return outcome

    def heard(self, session_id: str, data: dict[str, Any], *, at: int) -> OptWord | None:
        """The word in a MESSAGE_RECEIVED; only what somebody wrote themselves, in a chat with us alone."""
        text = data.get("text")
        if not isinstance(text, str) or data.get("isGroup") is True or data.get("kind", "text") != "text":
            return None
        found = self._words.meaning(text)
        phone, lid = _who(data)
        if found is None or not phone:
            return None
        kind, word = found
        sent_at = data.get("timestamp")
        return OptWord(
            session=session_id,
            phone=phone,
            lid=lid,
            kind=kind,
            word=word,
            wa=str(data.get("waMessageId") or f"{session_id}-{at}")[:128],
            at=sent_at if isinstance(sent_at, int) and not isinstance(sent_at, bool) and 0 < sent_at <= at else at,
            answer=self._answer(phone) if kind == "out" and self._reply else None,
        )

    def _answer(self, phone: str) -> Answer:
        number = secrets.token_hex(9)
        return Answer(id=f"msg_{number}", wa=wa_id_of(number), to=recipient_jid(phone), content=self._reply)


def _who(data: dict[str, Any]) -> tuple[str, str]:
    """(number, LID) as recipients are named here; the LID stands for the number where that is not known."""
    given = str(data.get("from") or "")
    lid = _lid(data.get("fromLid")) or _lid(data.get("lid")) or _lid(given)
    number = given.removesuffix("@s.whatsapp.net")
    if number.isascii() and number.isdigit() and 5 <= len(number) <= 20:
        return number, lid
    return lid, lid


def _lid(value: object) -> str:
    user, _, server = str(value or "").partition("@")
    user = user.partition(":")[0]
    return f"{user}@lid" if server == "lid" and user.isascii() and user.isdigit() and 5 <= len(user) <= 20 else ""
