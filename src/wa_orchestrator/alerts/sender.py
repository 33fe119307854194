"""Sends what waits, in order, one message at a time; Telegram being away only makes the queue longer."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

import structlog

from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.alerts.telegram import LONGEST_MESSAGE, Outcome, Telegram
from wa_orchestrator.alerts.texts import Texts, shortened, utf16_length
from wa_orchestrator.background import repeat
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

log = structlog.get_logger()

_LOOK_EVERY_S = 1.0
# longer than a call may take, so that a second sender never writes what the first is writing
LEASE_MS = 30_000
_FIRST_PAUSE_MS, _LONGEST_PAUSE_MS = 1_000, 60_000
_REFUSED_PAUSE_MS = 300_000  # only a person can help; a look now and then finds out whether one did


class AlertSender:
    def __init__(self, *, store: Store, settings: Settings, telegram: Telegram, wake: asyncio.Event) -> None:
        self._store = store
        self._telegram = telegram
        self._texts = Texts(settings.alert_language, settings.timezone)
        self._wake = wake
        self._owner = secrets.token_hex(8)
        self._fresh = True
        self._stop = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        if not self._telegram.configured:
            await stop.wait()
            return
        self._fresh, self._stop = True, stop
        await repeat(self.run_once, stop, every_s=_LOOK_EVERY_S, name="alert_sender", wake=self._wake)

    async def run_once(self) -> int:
        """How many notices went out."""
        if self._fresh:
            # the settings may have been corrected since the last start
            if (await self._store.alerts.channel()).problem:
                await self._store.alerts.try_now()
            self._fresh = False
        sent = 0
        while True:
            claimed = await self._store.alerts.claim(self._owner, lease_ms=LEASE_MS)
            if not claimed.notices:
                return sent
            notices = [Notice.read(text) for text in claimed.notices]
            count, html, plain = message_of(notices, self._texts, left_out=claimed.left_out)
            outcome = await self._telegram.send(html, plain) if html else Outcome(refused="message")
            if not await self._settle(outcome, count, claimed.left_out, failures=claimed.failures):
                return sent
            sent += count
            if self._stop.is_set():
                return sent

    async def _settle(self, outcome: Outcome, count: int, left_out: int, *, failures: int) -> bool:
        """True: these are through, go on with the next."""
        settle = self._store.alerts.settle
        if outcome.ok:
            return await settle(self._owner, done=count, sent=True, left_out=left_out)
        if outcome.refused == "message":
            log.error("alert_not_deliverable", notices=count)
            return await settle(self._owner, done=count, left_out=left_out)
        if outcome.wait_s:
            await settle(self._owner, wait_ms=int(outcome.wait_s * 1000))
        elif outcome.refused:
            log.error("telegram_refuses_alerts", problem=outcome.refused)
            await settle(self._owner, problem=outcome.refused, failures=failures, wait_ms=_REFUSED_PAUSE_MS)
        else:
            if failures == 0:
                log.warning("telegram_away")
            pause = min(_FIRST_PAUSE_MS * 2 ** min(failures, 10), _LONGEST_PAUSE_MS)
            await settle(self._owner, problem="away", failures=failures + 1, wait_ms=pause)
        return False


def message_of(notices: Sequence[Notice | None], texts: Texts, *, left_out: int) -> tuple[int, str, str]:
    """(how many fit, as HTML, as plain text). Those that waited together travel together."""
    html: list[str] = []
    plain: list[str] = []
    if left_out:
        line = "… " + texts.say("title.left_out.one" if left_out == 1 else "title.left_out.many", n=left_out)
        html.append(line)
        plain.append(line)
    count = 0
    for notice in notices:
        if notice is None:
            count += 1
            continue
        more = texts.as_html(notice)
        if html and utf16_length("\n\n".join([*html, more])) > LONGEST_MESSAGE:
            break
        html.append(more)
        plain.append(texts.plain(notice))
        count += 1
    return count, "\n\n".join(html), shortened("\n\n".join(plain), LONGEST_MESSAGE)
