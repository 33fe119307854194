"""Reads from the rooms what the pages show."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wa_orchestrator.dashboard import charts
from wa_orchestrator.dashboard.looks import Glance, Seen, glance, seen
from wa_orchestrator.dashboard.problems import Circumstances, Problem, find_problems
from wa_orchestrator.errors import MessageNotFound, SessionNotFound, SettingsError
from wa_orchestrator.gateway.asking import story_of
from wa_orchestrator.gateway.story import message_view
from wa_orchestrator.model.limits import limits_view, override_view
from wa_orchestrator.model.proxy import Proxy
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.store.rows import SessionRow
from wa_orchestrator.worker_program import worker_program

_SCAN_AT_ONCE = 500
_MOST_SCANNED = 20_000


@dataclass(frozen=True)
class Overview:
    rows: list[Seen]
    numbers: Glance
    proxies: list[Proxy]
    dead_messages: int


class Knowing:
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._store = rooms.store

    async def sessions(self) -> list[Seen]:
        rows, proxies = await asyncio.gather(self._store.rows.all(), self.proxies_by_id())
        return self._seen(rows, proxies)

    def _seen(self, rows: list[SessionRow], proxies: dict[str, Proxy]) -> list[Seen]:
        now = self._rooms.clock.now_ms()
        return [seen(row, proxies, now_ms=now) for row in rows]

    async def overview(self) -> Overview:
        """All sessions and the numbers at a glance, from one look at everything."""
        rows, proxies, messages = await asyncio.gather(
            self._store.rows.all(), self._store.proxies.all(), self._store.messages.counts()
        )
        found = self._seen(rows, {proxy.proxy_id: proxy for proxy in proxies})
        slots = self._rooms.settings.max_sessions_per_proxy
        return Overview(found, glance(found, proxies, messages, slots_per_proxy=slots), proxies, int(messages["dead"]))

    async def session(self, session_id: str) -> Seen:
        rows, proxies = await asyncio.gather(
            self._store.rows.some([checked_session_id(session_id)]), self.proxies_by_id()
        )
        if not rows:
            raise SessionNotFound
        return seen(rows[0], proxies, now_ms=self._rooms.clock.now_ms())

    async def proxies_by_id(self) -> dict[str, Proxy]:
        return {proxy.proxy_id: proxy for proxy in await self._store.proxies.all()}

    async def chart(self, wanted: str) -> dict[str, list[Any]]:
        last, per_point = charts.RANGES.get(wanted, charts.RANGES["hour"])
        return charts.series(await self._store.stats.minutes(last=last), per_point=per_point)

    async def limits(self, row: Seen) -> dict[str, Any]:
        """A session's limits as the anti-ban pages show them."""
        planner = self._rooms.planner
        effective, trust, _ = await planner.effective_of_session(row.id, row.phone)
        own = await planner.override(row.id)
        return {
            "row": row,
            "trust": trust,
            "preset": effective.preset,
            "values": limits_view(effective.limits),
            "sources": effective.sources,
            "override": override_view(own) if own and own.active(self._rooms.clock.now_ms()) else {},
            "ends_at": effective.changes_at,
        }

    async def messages(
        self, *, status: str = "", session_id: str = "", search: str = "", after: str = "", limit: int
    ) -> list[dict[str, Any]]:
        """The newest that fit, from just after `after` on; looks through the newest 20,000 at most."""
        digits = search.strip().lstrip("+").lower()
        found: list[dict[str, Any]] = []
        last, scanned = after, 0
        while scanned < _MOST_SCANNED and len(found) < limit:
            ids = await self._store.messages.newest(before=last, limit=_SCAN_AT_ONCE)
            if not ids:
                break
            for record in await self._store.messages.many(ids):
                view = message_view(record)
                text = f"{view['to']} {view['messageId']} {view['reference'] or ''} {view['reason'] or ''}".lower()
                fits = (not status or view["status"] == status) and (not digits or digits in text)
                if fits and (not session_id or view["sessionId"] == session_id) and len(found) < limit:
                    found.append(view)
            last, scanned = ids[-1], scanned + len(ids)
        return found

    async def message(self, message_id: str) -> dict[str, Any]:
        record = await self._store.messages.get(message_id)
        if record is None:
            raise MessageNotFound
        return await story_of(self._store, record, now_ms=self._rooms.clock.now_ms())

    async def problems(self) -> tuple[list[Problem], Glance]:
        now, channel = await asyncio.gather(self.overview(), self._rooms.alerts.channel())
        settings = self._rooms.settings
        here = Circumstances(
            now_ms=self._rooms.clock.now_ms(), rows=now.rows, proxies=now.proxies, numbers=now.numbers,
            dead_messages=now.dead_messages, free_bytes=_free_bytes(settings.data_path()),
            ping_timeout_ms=settings.ping_timeout_ms,
            alerts_on=bool(settings.telegram_bot_token and settings.telegram_chat_id),
            alert_problem=channel.problem, worker_built=self._worker_built(),
        )  # fmt: skip
        return find_problems(here), now.numbers

    def _worker_built(self) -> bool:
        try:
            worker_program(self._rooms.settings)
        except SettingsError:
            return False
        return True


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 1 << 60  # not known: no reason to alarm anybody
