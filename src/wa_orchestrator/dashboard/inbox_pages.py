"""A session's inbox: who wrote, what was said, and a box to answer."""

from __future__ import annotations

from typing import Any

from fastapi import Request

from wa_orchestrator.dashboard.guard import GuardedPages
from wa_orchestrator.dashboard.knowing import Knowing
from wa_orchestrator.dashboard.people import Person
from wa_orchestrator.errors import ConversationNotFound, InvalidRecipient
from wa_orchestrator.inbound.conversations import Conversations
from wa_orchestrator.rooms import Rooms

_CHATS_SHOWN = 50
_MESSAGES_SHOWN = 50


def add_inbox_pages(pages: GuardedPages, rooms: Rooms, knowing: Knowing) -> None:
    kept = rooms.settings.inbox_keep_days > 0
    inbox = Conversations(rooms.store, kept=kept)

    async def now(request: Request) -> dict[str, Any]:
        row = await knowing.session(request.path_params["session_id"])
        chat = request.query_params.get("chat", "")[:60]
        if not kept:
            return {"row": row, "kept": False, "chats": [], "talk": None}
        page = await inbox.page(row.id, cursor="", limit=_CHATS_SHOWN)
        return {"row": row, "kept": True, "chats": page["conversations"], "talk": await talk(row.id, chat)}

    async def talk(session_id: str, chat: str) -> dict[str, Any] | None:
        if not chat:
            return None
        try:
            found = await inbox.messages(session_id, chat, before="", limit=_MESSAGES_SHOWN)
        except (ConversationNotFound, InvalidRecipient):  # it was forgotten meanwhile, or the address is made up
            return None
        return {**found["conversation"], "messages": list(reversed(found["messages"]))}

    @pages.page("/sessions/{session_id}/inbox", "inbox.html")
    async def inbox_page(request: Request, _: Person) -> dict[str, Any]:
        return {**await now(request), "event_number": await rooms.store.journal.last_number()}

    @pages.part("/parts/inbox/{session_id}", "parts/inbox.html")
    async def inbox_part(request: Request, _: Person) -> dict[str, Any]:
        return await now(request)
