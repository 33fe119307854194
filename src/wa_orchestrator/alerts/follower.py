"""Follows the journal and keeps the desk: what was read, decided and is to be told is written in one step.

So a killed leader loses nothing and its successor repeats nothing: whoever writes second is refused, reads again what
was written, and goes on from there.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from wa_orchestrator.alerts.desk import Desk, Patience
from wa_orchestrator.alerts.kinds import at_least
from wa_orchestrator.alerts.naming import with_names
from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.alerts.rules import Signal, meaning_of
from wa_orchestrator.alerts.texts import Texts
from wa_orchestrator.background import repeat
from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.model.session import Status
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.alerts import OutgoingNotice

log = structlog.get_logger()

_LOOK_EVERY_S = 0.5
_BATCH = 1000
# what means nothing to us is read again after a crash; that costs less than writing for every message that is sent
_WRITE_PLACE_EVERY = 5000


class AlertFollower:
    def __init__(self, *, store: Store, settings: Settings, clock: Clock, wake: asyncio.Event | None = None) -> None:
        self._store = store
        self._settings = settings
        self._clock = clock
        self._texts = Texts(settings.alert_language, settings.timezone)
        self._patience = Patience(
            grace_ms=settings.alert_grace_ms, fold_ms=settings.alert_fold_ms, digest_ms=settings.alert_digest_ms
        )
        self._desk: Desk | None = None
        self._opened = False
        self._read = 0  # up to here in memory
        self._written: int | None = None  # up to here in the store
        self.wake = wake or asyncio.Event()  # set when something waits to be sent

    async def run(self, stop: asyncio.Event) -> None:
        self._desk = None  # another leader may have been at it
        await repeat(self.run_once, stop, every_s=_LOOK_EVERY_S, name="alerts")

    async def run_once(self) -> list[Notice]:
        """Reads on to the journal's end; returns what was decided to tell."""
        told: list[Notice] = []
        while True:
            desk = self._desk or await self._open()
            entries = await self._store.journal.after(self._read, limit=_BATCH)
            if not entries and await self._store.journal.last_number() < self._read:
                self._desk = None  # the store was emptied under us
                continue
            if entries and self._read and entries[0].number > self._read + 1:
                await self._make_up_for_a_gap(desk, missed=entries[0].number - self._read - 1)
            for entry in entries:
                self._read = entry.number
                signal = meaning_of(entry)
                if signal:
                    desk.hear(signal, entry.at)
            caught_up = len(entries) < _BATCH
            if caught_up:
                desk.tick(self._clock.now_ms())
            told += await self._write(desk)
            if caught_up:
                return told

    async def _open(self) -> Desk:
        state = await self._store.alerts.load()
        last = await self._store.journal.last_number()
        position = state.position
        if position is None or position > last:
            # the first time from now on; a store that was emptied under us begins again, and so do we
            position = 0 if self._opened else last
        self._opened = True
        self._read = position
        self._written = position if state.position == position else None
        self._desk = Desk(state.records, self._patience, version=state.version)
        return self._desk

    async def _write(self, desk: Desk) -> list[Notice]:
        written, dropped, found = desk.take()
        news = written or dropped or found or self._written is None
        if not news and self._written is not None and self._read - self._written < _WRITE_PLACE_EVERY:
            return []
        try:
            notices = [await with_names(self._store, notice) for notice in found]
            done = await self._store.alerts.commit(
                version=desk.version, position=self._read, written=written, dropped=dropped,
                notices=[self._outgoing(notice) for notice in notices],
            )  # fmt: skip
        except BaseException:
            self._desk = None  # it is not known what was written: read it
            raise
        if not done:
            log.info("alert_desk_taken_over")
            self._desk = None
            return []
        desk.version += 1
        self._written = self._read
        if any(self._is_sent(notice) for notice in notices):
            self.wake.set()
        return notices

    def _outgoing(self, notice: Notice) -> OutgoingNotice:
        data = {
            "alertId": notice.id, "kind": notice.kind, "severity": notice.severity, "state": notice.state,
            "count": notice.count, "subjects": notice.subjects, "title": self._texts.title(notice),
        }  # fmt: skip
        return OutgoingNotice(
            json=msgspec.json.encode(notice).decode(),
            type="alert.resolved" if notice.state == "resolved" else "alert.raised",
            session_id=notice.session_id, data=msgspec.json.encode(data).decode(), send=self._is_sent(notice),
        )  # fmt: skip

    def _is_sent(self, notice: Notice) -> bool:
        settings = self._settings
        if not (settings.telegram_bot_token and settings.telegram_chat_id) or notice.quiet:
            return False
        return notice.kind not in settings.alert_muted.split(",") and at_least(
            notice.severity, settings.alert_min_severity
        )

    async def _make_up_for_a_gap(self, desk: Desk, *, missed: int) -> None:
        """The journal was cut before it was read: what the desk has in mind is compared with how things are."""
        log.warning("alert_events_missed", events=missed)
        try:
            sessions = {f"session:{s.session_id}": s for s in await self._store.sessions.all()}
            proxies = {f"proxy:{p.proxy_id}": p for p in await self._store.proxies.all()}
        except StoreUnavailable:
            self._desk = None
            raise
        now = self._clock.now_ms()
        for subject in desk.subjects():
            session, proxy = sessions.get(subject), proxies.get(subject)
            if subject.startswith("session:"):
                over = session is None or session.status is Status.STOPPED
                well = session is not None and session.status is Status.CONNECTED
            elif subject.startswith("proxy:"):
                over, well = proxy is None, proxy is not None and proxy.status == "active"
            else:
                continue
            if over or well:
                desk.hear(Signal(act="gone" if over else "clear", subject=subject), now)
