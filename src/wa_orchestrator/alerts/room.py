"""Alerts as the API, the pages and the command line see them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from wa_orchestrator.alerts.kinds import KINDS
from wa_orchestrator.alerts.naming import with_names
from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.alerts.telegram import Refusal, Telegram
from wa_orchestrator.alerts.texts import Texts
from wa_orchestrator.clock import iso
from wa_orchestrator.errors import AlertsOff, TelegramAway, TelegramRefused
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.alerts import ChannelState

_MOST = 500  # standing alerts that are shown
WHAT_TO_FIX: dict[Refusal, str] = {
    "token": "Telegram does not know this bot. Check TELEGRAM_BOT_TOKEN.",
    "chat": "The bot cannot write to this chat. Check TELEGRAM_CHAT_ID, and that the bot is a member and not blocked.",
    "message": "Telegram does not take the message. Look at the log.",
}


@dataclass(frozen=True, kw_only=True)
class Shown:
    """An alert with its words."""

    notice: Notice
    title: str
    lines: list[str]

    @property
    def heading(self) -> str:
        """The title without its picture, for pages that have their own."""
        return self.title.partition(" ")[2]

    def view(self) -> dict[str, Any]:
        notice = self.notice
        return {
            "id": notice.id or None, "at": iso(notice.at), "state": notice.state, "kind": notice.kind,
            "severity": notice.severity, "subjects": notice.subjects, "count": notice.count,
            "since": iso(notice.since), "title": self.title, "text": "\n".join(self.lines),
        }  # fmt: skip


class Alerts:
    def __init__(self, *, store: Store, settings: Settings, telegram: Telegram) -> None:
        self._store = store
        self._settings = settings
        self._telegram = telegram

    @property
    def configured(self) -> bool:
        return self._telegram.configured

    async def recent(self, *, limit: int, language: str = "") -> list[Shown]:
        """Newest first; what the operator ended himself is left out."""
        kept = [Notice.read(text) for text in await self._store.alerts.recent(limit=limit)]
        return [self._shown(notice, language) for notice in kept if notice and not notice.quiet]

    async def standing(self, *, language: str = "") -> list[Shown]:
        """What was alarmed and is not over, the worst and newest first."""
        found: list[Notice] = []
        for subject, record in (await self._store.alerts.open_records()).items():
            kind = KINDS.get(record["kind"])
            if kind is None or record.get("group"):
                continue  # still being gathered
            notice = Notice(
                id=record.get("batch", ""), at=record["since"], state="raised", kind=kind.name, severity=kind.severity,
                subjects=[subject], count=1, since=record["since"], facts=record.get("facts", {}),
            )  # fmt: skip
            found.append(notice)
        order = {"critical": 0, "warning": 1, "info": 2}
        found.sort(key=lambda notice: (order[notice.severity], -notice.at))
        named = await asyncio.gather(*(with_names(self._store, notice) for notice in found[:_MOST]))
        return [self._shown(notice, language) for notice in named]

    async def channel(self) -> ChannelState:
        return await self._store.alerts.channel()

    async def test(self) -> None:
        """Writes to the chat now, past the queue; raises why it did not work."""
        if not self.configured:
            raise AlertsOff
        text = f"✅ {self._texts('').say('title.test')}"
        outcome = await self._telegram.send(text, text)
        if outcome.refused:
            raise TelegramRefused(WHAT_TO_FIX[outcome.refused], details={"problem": outcome.refused})
        if not outcome.ok:
            raise TelegramAway(retry_after_s=max(1, round(outcome.wait_s)))
        await self._store.alerts.try_now()

    def _shown(self, notice: Notice, language: str) -> Shown:
        title, *lines = self._texts(language).lines(notice)
        return Shown(notice=notice, title=title, lines=[title, *lines])

    def _texts(self, language: str) -> Texts:
        return Texts(language or self._settings.alert_language, self._settings.timezone)
