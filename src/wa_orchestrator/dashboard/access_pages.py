"""The pages for keys, the audit log and the suppression list."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from wa_orchestrator.dashboard.guard import GuardedPages
from wa_orchestrator.dashboard.people import Person
from wa_orchestrator.errors import InvalidRecipient
from wa_orchestrator.http.audit import look_through
from wa_orchestrator.http.keys import key_view
from wa_orchestrator.http.suppression import read_recipient
from wa_orchestrator.model.caller import Right
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.suppression.advice import recipient_view

_PER_PAGE = 50


def add_key_pages(pages: GuardedPages, rooms: Rooms) -> None:
    async def table() -> dict[str, Any]:
        now = rooms.clock.now_ms()
        return {"keys": [key_view(key, now_ms=now) for key in await rooms.store.api_keys.all()]}

    @pages.page("/keys", "keys.html")
    async def keys(_request: Request, _: Person) -> dict[str, Any]:
        return {
            **await table(),
            "rights": [right.value for right in Right],
            "event_number": await rooms.store.journal.last_number(),
        }

    @pages.part("/parts/keys", "parts/keys.html")
    async def rows(_request: Request, _: Person) -> dict[str, Any]:
        return await table()


def add_audit_pages(pages: GuardedPages, rooms: Rooms) -> None:
    async def table(request: Request) -> dict[str, Any]:
        asked = {name: request.query_params.get(name, "")[:100] for name in ("by", "what", "on")}
        place = request.query_params.get("after", "")
        after = place if place.replace("-", "", 1).isdigit() and len(place) < 30 else ""
        lines, more = await look_through(rooms, **asked, limit=_PER_PAGE, cursor=after)
        return {"lines": lines, "asked": asked, "after": after, "more": more or ""}

    @pages.page("/audit", "audit.html")
    async def audit(request: Request, _: Person) -> dict[str, Any]:
        return {**await table(request), "event_number": await rooms.store.journal.last_number()}

    @pages.part("/parts/audit", "parts/audit.html")
    async def rows(request: Request, _: Person) -> dict[str, Any]:
        return await table(request)


def add_suppression_pages(pages: GuardedPages, rooms: Rooms) -> None:
    store = rooms.store.suppression

    async def table(request: Request) -> dict[str, Any]:
        asked = request.query_params.get("page", "1")
        page = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 7 else 1
        start = (max(1, page) - 1) * _PER_PAGE
        total = await store.count()
        entries = await store.newest(start=start, limit=_PER_PAGE)
        return {"entries": entries, "total": total, "page_number": max(1, page), "more": start + len(entries) < total,
                **await looked_up(request.query_params.get("phone", "")[:60])}  # fmt: skip

    async def looked_up(phone: str) -> dict[str, Any]:
        if not phone.strip():
            return {"asked": "", "recipient": None, "unreadable": False}
        try:
            number = read_recipient(phone)
        except InvalidRecipient:
            return {"asked": phone, "recipient": None, "unreadable": True}
        known = recipient_view(number, await store.recipient(number))
        return {"asked": phone, "recipient": known, "unreadable": False}

    @pages.page("/suppression", "suppression.html")
    async def suppression(request: Request, _: Person) -> dict[str, Any]:
        return {
            **await table(request),
            "words": rooms.settings.opt_out_words,
            "event_number": await rooms.store.journal.last_number(),
        }

    @pages.part("/parts/suppression", "parts/suppression.html")
    async def rows(request: Request, _: Person) -> dict[str, Any]:
        return await table(request)
