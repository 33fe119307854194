"""Conversations for whoever looks: a list of chats, what was said in one, marking it as read."""

from __future__ import annotations

import asyncio
from typing import Any

from wa_orchestrator.errors import ConversationNotFound, InboxOff, SessionNotFound
from wa_orchestrator.gateway.recipient import recipient_jid, recipient_key
from wa_orchestrator.inbound.views import conversation_view, media_ids, message_views
from wa_orchestrator.store import Store
from wa_orchestrator.store.conversations import Conversation, Said

_MOST_RECEIPTS = 50


class Conversations:
    def __init__(self, store: Store, *, kept: bool) -> None:
        self._store = store
        self._kept = kept

    async def page(self, session_id: str, *, cursor: str, limit: int) -> dict[str, Any]:
        """Newest first, each with its last message."""
        await self._check(session_id)
        found = await self._store.conversations.newest(session_id, before=cursor, limit=limit)
        last = await asyncio.gather(*(self._said(session_id, one.chat, limit=1) for one in found))
        return {
            "conversations": [
                conversation_view(one, said[0] if said else None) for one, (_, said) in zip(found, last, strict=True)
            ],
            "nextCursor": found[-1].chat if len(found) == limit else None,
        }

    async def messages(self, session_id: str, chat: str, *, before: str, limit: int) -> dict[str, Any]:
        """Newest first, received and sent."""
        conversation = await self._known(session_id, chat)
        oldest, shown = await self._said(session_id, conversation.chat, before=before, limit=limit)
        return {"conversation": conversation_view(conversation, None), "messages": shown, "nextBefore": oldest}

    async def mark_read(self, session_id: str, chat: str) -> dict[str, Any]:
        """Nothing is unread any more; the worker tells WhatsApp, groups excepted."""
        conversation = await self._known(session_id, chat)
        name, unread = conversation.chat, conversation.unread
        if unread and not name.endswith("@g.us"):
            said = await self._store.conversations.said(session_id, name, limit=min(100, unread * 2))
            ids = [one.member for one in said if one.entry is not None][: min(unread, _MOST_RECEIPTS)]
            if ids:
                args = {"chat": recipient_jid(name), "waMessageIds": ids}
                await self._store.commands.send(session_id, "mark_read", args)
        await self._store.conversations.mark_read(session_id, name)
        return {"chat": name, "unread": 0}

    async def _check(self, session_id: str) -> None:
        if await self._store.sessions.get(session_id) is None:
            raise SessionNotFound
        if not self._kept:
            raise InboxOff

    async def _known(self, session_id: str, chat: str) -> Conversation:
        await self._check(session_id)
        name = await self._store.conversations.chat_of(session_id, recipient_key(recipient_jid(chat)))
        found = await self._store.conversations.one(session_id, name)
        if found is None:
            raise ConversationNotFound
        return found

    async def _said(
        self, session_id: str, chat: str, *, limit: int, before: str = ""
    ) -> tuple[str | None, list[dict[str, Any]]]:
        """(where the next page begins, the messages)."""
        said = await self._store.conversations.said(session_id, chat, before=before, limit=limit)
        sent, states = await asyncio.gather(
            self._store.messages.many([one.member for one in said if one.entry is None]),
            self._store.conversations.media_states(session_id, media_ids(said)),
        )
        by_id = {record["id"]: record for record in sent}
        views = message_views(said, sent=by_id, media_states=states, session_id=session_id)
        return _oldest(said, limit), views


def _oldest(said: list[Said], limit: int) -> str | None:
    return said[-1].member if len(said) == limit else None
