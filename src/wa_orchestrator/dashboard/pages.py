"""The pages for operators, and the pieces and data that keep them live."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from fastapi import Request

from wa_orchestrator.clock import iso
from wa_orchestrator.dashboard import charts, looks, telling, worker_log
from wa_orchestrator.dashboard.guard import GuardedPages
from wa_orchestrator.dashboard.knowing import Knowing
from wa_orchestrator.dashboard.people import Person
from wa_orchestrator.dashboard.rendering import Rendering
from wa_orchestrator.dashboard.scanning import ScanLinks, scan_state
from wa_orchestrator.http.sessions import SessionLook
from wa_orchestrator.model.limits import PRESETS, Burst, preset_limits
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import checked_session_id
from wa_orchestrator.model.trust import LEVELS
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.settings import described_settings

_EVENTS_SHOWN = 200
_SECRET = re.compile(r"KEY|SECRET|TOKEN|PASS|REDIS_URL|WORKER_ENV|COMMAND|DSN")


def add_session_pages(pages: GuardedPages, rooms: Rooms, knowing: Knowing, rendering: Rendering) -> None:
    """`/` and a session's own page."""

    async def table(request: Request) -> dict[str, Any]:
        question = looks.read_question(dict(request.query_params))
        now = await knowing.overview()
        return {"question": question, "list": looks.select(now.rows, question), "numbers": now.numbers}

    @pages.page("/", "sessions.html")
    async def front(request: Request, _: Person) -> dict[str, Any]:
        return {**await table(request), "ranges": tuple(charts.RANGES), "event_number": await _last_number(rooms)}

    @pages.part("/parts/sessions", "parts/sessions.html")
    async def rows(request: Request, _: Person) -> dict[str, Any]:
        return await table(request)

    @pages.data("/parts/chart")
    async def chart(request: Request, _: Person) -> Any:
        return await knowing.chart(request.query_params.get("range", "hour"))

    async def one(request: Request) -> dict[str, Any]:
        row = await knowing.session(request.path_params["session_id"])
        words = rendering.words(request)
        entries = await rooms.store.journal.timeline(row.id, limit=100)
        places = await _places(rooms)
        return {
            "row": row,
            "session": await SessionLook(rooms).known(row.id),
            "limits": await knowing.limits(row),
            "events": [telling.tell(entry, words, places) for entry in entries],
            "messages": await knowing.messages(session_id=row.id, limit=10),
        }

    @pages.page("/sessions/{session_id}", "session.html")
    async def session(request: Request, _: Person) -> dict[str, Any]:
        found = await one(request)
        return {**found, **_log(rooms, found["row"].id, None), "event_number": await _last_number(rooms)}

    @pages.part("/parts/session/{session_id}", "parts/session.html")
    async def session_part(request: Request, _: Person) -> dict[str, Any]:
        return await one(request)

    @pages.part("/parts/log/{session_id}", "parts/log_lines.html")
    async def log_part(request: Request, _: Person) -> dict[str, Any]:
        after = request.query_params.get("after", "")
        position = int(after) if after.isascii() and after.isdigit() and len(after) < 16 else None
        return _log(rooms, checked_session_id(request.path_params["session_id"]), position)


def add_scan_pages(pages: GuardedPages, rooms: Rooms, knowing: Knowing, rendering: Rendering, links: ScanLinks) -> None:
    """`/scan` for operators, and the links for everybody else."""

    @pages.page("/scan", "scan.html")
    async def scan(request: Request, _: Person) -> dict[str, Any]:
        session_id = request.query_params.get("session", "")
        session = await SessionLook(rooms).known(session_id) if session_id else None
        proxies = await rooms.store.proxies.all()
        slots = rooms.settings.max_sessions_per_proxy
        free = [(p, slots - len(p.sessions)) for p in proxies if p.status is ProxyStatus.ACTIVE and not p.draining]
        return {
            "session": session,
            "state": await state_of(request, session.session_id) if session else None,
            "proxies": sorted((pair for pair in free if pair[1] > 0), key=lambda pair: -pair[1]),
            "free_slots": sum(max(0, count) for _, count in free),
            "event_number": await _last_number(rooms),
        }

    async def state_of(request: Request, session_id: str) -> dict[str, Any]:
        row = await knowing.session(session_id)
        place = f"{row.proxy.address.host}:{row.proxy.address.port}" if row.proxy else None
        session = await SessionLook(rooms).known(session_id)
        state = await scan_state(rooms, session, rendering.words(request))
        return {**state, "proxy": place, "name": row.name}

    @pages.data("/parts/scan/{session_id}")
    async def state(request: Request, _: Person) -> Any:
        return await state_of(request, request.path_params["session_id"])

    @pages.data("/sessions/{session_id}/scan-link", method="POST")
    async def link(request: Request, _: Person) -> Any:
        made = links.make(await SessionLook(rooms).known(request.path_params["session_id"]))
        return {"path": made.path, "endsAt": iso(made.ends_at)}


def add_message_pages(pages: GuardedPages, rooms: Rooms, knowing: Knowing) -> None:
    async def table(request: Request) -> dict[str, Any]:
        asked = request.query_params
        status, session_id = asked.get("status", "")[:20], asked.get("session", "")[:64]
        search, after = asked.get("search", "")[:100], asked.get("after", "")[:64]
        found = await knowing.messages(status=status, session_id=session_id, search=search, after=after, limit=50)
        return {
            "messages": found,
            "asked": {"status": status, "session": session_id, "search": search, "after": after},
            "more": found[-1]["messageId"] if len(found) == 50 else "",
        }

    @pages.page("/messages", "messages.html")
    async def messages(request: Request, _: Person) -> dict[str, Any]:
        senders = [row for row in await knowing.sessions() if row.linked]
        senders.sort(key=lambda row: looks.natural(row.name))
        return {**await table(request), "senders": senders, "event_number": await _last_number(rooms)}

    @pages.part("/parts/messages", "parts/messages.html")
    async def rows(request: Request, _: Person) -> dict[str, Any]:
        return await table(request)

    async def story(request: Request) -> dict[str, Any]:
        return {"message": await knowing.message(request.path_params["message_id"])}

    @pages.page("/messages/{message_id}", "message.html")
    async def message(request: Request, _: Person) -> dict[str, Any]:
        return {**await story(request), "event_number": await _last_number(rooms)}

    @pages.part("/parts/message/{message_id}", "parts/message.html")
    async def message_part(request: Request, _: Person) -> dict[str, Any]:
        return await story(request)


def add_proxy_pages(pages: GuardedPages, rooms: Rooms, knowing: Knowing) -> None:
    async def table() -> dict[str, Any]:
        proxies = await rooms.store.proxies.all()
        order = {ProxyStatus.BAD: 0, ProxyStatus.TESTING: 1, ProxyStatus.ACTIVE: 2}
        proxies.sort(key=lambda p: (order[p.status], -len(p.sessions), p.address.host, p.address.port))
        names = {row.id: row.name for row in await knowing.sessions()}
        return {"proxies": proxies, "slots": rooms.settings.max_sessions_per_proxy, "names": names}

    @pages.page("/proxies", "proxies.html")
    async def proxies(_request: Request, _: Person) -> dict[str, Any]:
        return {**await table(), "event_number": await _last_number(rooms)}

    @pages.part("/parts/proxies", "parts/proxies.html")
    async def rows(_request: Request, _: Person) -> dict[str, Any]:
        return await table()


def add_anti_ban_pages(pages: GuardedPages, rooms: Rooms, knowing: Knowing) -> None:
    settings = rooms.settings
    burst = Burst(settings.burst_messages, settings.burst_pause_ms)
    presets = {
        preset: [(level, preset_limits(preset, level, timezone=settings.timezone, burst=burst))
                 for level in reversed(LEVELS)]
        for preset in PRESETS
    }  # fmt: skip

    async def table(request: Request) -> dict[str, Any]:
        question = looks.read_question(dict(request.query_params))
        rows = await knowing.sessions()
        if request.query_params.get("held"):
            rows = [row for row in rows if row.why_slow]
        found = looks.select(rows, question)
        return {
            "list": found,
            "question": question,
            "held": bool(request.query_params.get("held")),
            "limits": [await knowing.limits(row) for row in found.rows],
        }

    @pages.page("/anti-ban", "anti_ban.html")
    async def anti_ban(request: Request, _: Person) -> dict[str, Any]:
        return {
            **await table(request),
            "presets": presets,
            "default_preset": settings.pacing_preset,
            "everywhere": await rooms.store.lanes.override("global") or {},
            "event_number": await _last_number(rooms),
        }

    @pages.part("/parts/anti-ban", "parts/anti_ban.html")
    async def rows(request: Request, _: Person) -> dict[str, Any]:
        return await table(request)

    @pages.page("/anti-ban/{session_id}", "limits.html")
    async def limits(request: Request, _: Person) -> dict[str, Any]:
        row = await knowing.session(request.path_params["session_id"])
        return {"limits": await knowing.limits(row), "row": row, "presets": PRESETS,
                "event_number": await _last_number(rooms)}  # fmt: skip

    @pages.part("/parts/limits/{session_id}", "parts/limits_now.html")
    async def limits_part(request: Request, _: Person) -> dict[str, Any]:
        row = await knowing.session(request.path_params["session_id"])
        return {"limits": await knowing.limits(row), "row": row}


def add_watching_pages(pages: GuardedPages, rooms: Rooms, knowing: Knowing, rendering: Rendering) -> None:
    """The live log and the check-up."""

    async def events(request: Request) -> dict[str, Any]:
        asked = request.query_params
        after = asked.get("after", "")
        last = await rooms.store.journal.last_number()
        number = int(after) if after.isascii() and after.isdigit() and len(after) < 16 else None
        # never more than fits: who is far behind sees the newest
        start = max(last - _EVENTS_SHOWN, number if number is not None and number <= last else 0)
        kind, search = asked.get("kind", ""), asked.get("search", "")[:100]
        if number is None and (kind or search):
            start = max(0, last - 10 * _EVENTS_SHOWN)  # a filter looks further back
        entries = await rooms.store.journal.after(start, limit=10 * _EVENTS_SHOWN)
        words, places = rendering.words(request), await _places(rooms)
        told = [telling.tell(entry, words, places) for entry in entries]
        chosen = [line for line in told if telling.wanted(line, kind=kind, search=search)]
        return {
            "events": list(reversed(chosen[-_EVENTS_SHOWN:])),
            "last": entries[-1].number if entries else start,
            "kind": kind,
            "search": search,
        }

    @pages.page("/live-log", "live_log.html")
    async def live_log(request: Request, _: Person) -> dict[str, Any]:
        found = await events(request)
        return {**found, "kinds": telling.KINDS, "event_number": found["last"]}

    @pages.part("/parts/events", "parts/events.html")
    async def more_events(request: Request, _: Person) -> dict[str, Any]:
        return await events(request)

    async def findings() -> dict[str, Any]:
        problems, numbers = await knowing.problems()
        return {"problems": problems, "numbers": numbers}

    @pages.page("/check-up", "check_up.html")
    async def check_up(_request: Request, _: Person) -> dict[str, Any]:
        return {**await findings(), "settings": _shown_settings(rooms), "event_number": await _last_number(rooms)}

    @pages.part("/parts/check-up", "parts/check_up.html")
    async def check_up_part(_request: Request, _: Person) -> dict[str, Any]:
        return await findings()


async def _last_number(rooms: Rooms) -> int:
    return await rooms.store.journal.last_number()


async def _places(rooms: Rooms) -> dict[str, str]:
    return {p.proxy_id: f"{p.address.host}:{p.address.port}" for p in await rooms.store.proxies.all()}


def _log(rooms: Rooms, session_id: str, position: int | None) -> dict[str, Any]:
    part = worker_log.read_log(rooms.settings.data_path("logs", f"{session_id}.log"), position=position)
    return {"lines": part.lines[-300:], "position": part.position}


def _shown_settings(rooms: Rooms) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """(group, [(name, value, changed)]); of a secret only whether it is set."""
    by_env = {f.metadata["env"]: f.name for f in fields(type(rooms.settings)) if f.metadata}
    groups: dict[str, list[tuple[str, str, bool]]] = {}
    for group, env, default, _ in described_settings():
        value = getattr(rooms.settings, by_env[env])
        text = str(value).lower() if isinstance(value, bool) else str(value)
        changed = text != default
        if _SECRET.search(env):
            text = "•••" if text else ""
        groups.setdefault(group, []).append((env, text, changed))
    return list(groups.items())
