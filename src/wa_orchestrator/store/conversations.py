"""Conversations in the store: what a session and each of its chats said, and the records of received files."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from wa_orchestrator.store import keys, scripts
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.messages import Stamp

_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class Received:
    """A message as it came in, in the store's words. One of `entry`, `edit`, `deletion` and `reaction` is given."""

    chat: str
    lid: str
    name: str
    sender: str
    at: int
    wa: str
    entry: dict[str, Any] | None = None
    edit: tuple[str, dict[str, Any]] | None = None
    deletion: tuple[str, dict[str, Any]] | None = None
    reaction: tuple[list[str], str] | None = None
    media: tuple[str, dict[str, str | int]] | None = None


@dataclass(frozen=True, kw_only=True)
class Conversation:
    chat: str
    last_at: int
    name: str
    lid: str
    unread: int


@dataclass(frozen=True, kw_only=True)
class Said:
    """One message of a conversation. `entry` is what came in; None: it is ours, `member` is its message id."""

    member: str
    at: int
    entry: dict[str, Any] | None
    edit: dict[str, Any] | None = None
    reactions: dict[str, str] = field(default_factory=dict)


class ConversationStore:
    def __init__(self, connection: Connection, stamp: Stamp, *, media_keep_days: int = 30) -> None:
        self._connection = connection
        self._stamp = stamp
        self._media_keep_ms = max(1, media_keep_days) * _DAY_MS

    # writing ---------------------------------------------------------------------------------------------------
    async def receive(self, session_id: str, message: Received) -> str:
        """One step; a repeat changes nothing."""
        arguments: dict[str, Any] = {
            **self._stamp.arguments(),
            "session": session_id,
            "chat": message.chat,
            "lid": message.lid,
            "name": message.name,
            "from": message.sender,
            "at": message.at,
            "wa": message.wa,
        }
        if message.entry is not None:
            arguments["entry"] = _json(message.entry)
        for name, change in (("edit", message.edit), ("deletion", message.deletion)):
            if change is not None:
                arguments[name] = {"wa": change[0], "entry": _json(change[1])}
        if message.reaction is not None:
            arguments["reaction"] = {"members": message.reaction[0], "emoji": message.reaction[1]}
        if message.media is not None:
            arguments["media"] = {"id": message.media[0], "keepMs": self._media_keep_ms, "set": message.media[1]}
        return str((await scripts.run(self._connection, "receive_message", arguments))["outcome"])

    async def settle_media(self, session_id: str, media_id: str, fields: dict[str, str | int]) -> str:
        answer = await scripts.run(
            self._connection,
            "settle_inbound_media",
            {
                "now": self._stamp.arguments()["now"],
                "session": session_id,
                "id": media_id,
                "keepMs": self._media_keep_ms,
                "set": fields,
            },
        )
        return str(answer["outcome"])

    async def mark_read(self, session_id: str, chat: str) -> None:
        name = f"{session_id}:{chat}"
        # only where it is: a late click must not bring a forgotten conversation back
        if await self._connection.call("EXISTS", keys.INBOX_CHAT(name)):
            await self._connection.call("HSET", keys.INBOX_CHAT(name), "unread", 0)

    # reading ---------------------------------------------------------------------------------------------------
    async def chat_of(self, session_id: str, chat: str) -> str:
        """The name under which it is kept: a LID whose number is known is the number's."""
        if not chat.endswith("@lid"):
            return chat
        return str(await self._connection.call("GET", keys.INBOX_LID(f"{session_id}:{chat}")) or chat)

    async def newest(self, session_id: str, *, before: str, limit: int) -> list[Conversation]:
        """Newest first, from just after `before` (a chat; empty: the newest)."""
        start = await self._rank_after(keys.INBOX(session_id), before)
        if start is None:
            return []
        call = self._connection.call
        rows = _pairs(await call("ZREVRANGE", keys.INBOX(session_id), start, start + limit - 1, "WITHSCORES"))
        found = await asyncio.gather(*(call("HGETALL", keys.INBOX_CHAT(f"{session_id}:{chat}")) for chat, _ in rows))
        return [_conversation(chat, at, about) for (chat, at), about in zip(rows, found, strict=True) if about]

    async def one(self, session_id: str, chat: str) -> Conversation | None:
        at, about = await asyncio.gather(
            self._connection.call("ZSCORE", keys.INBOX(session_id), chat),
            self._connection.call("HGETALL", keys.INBOX_CHAT(f"{session_id}:{chat}")),
        )
        return _conversation(chat, float(at), about) if at is not None and about else None

    async def said(self, session_id: str, chat: str, *, before: str = "", limit: int) -> list[Said]:
        """Newest first, from just before the message `before` (empty: the newest)."""
        name = f"{session_id}:{chat}"
        start = await self._rank_after(keys.INBOX_ORDER(name), before)
        if start is None:
            return []
        call = self._connection.call
        rows = _pairs(await call("ZREVRANGE", keys.INBOX_ORDER(name), start, start + limit - 1, "WITHSCORES"))
        if not rows:
            return []
        fields: dict[str, str]
        if limit == 1:  # a list of many conversations asks for each one's last message
            member = rows[0][0]
            wanted = (member, f"{member}#edit", f"{member}#marks")
            texts = await call("HMGET", keys.INBOX_SAID(name), *wanted)
            fields = {key: text for key, text in zip(wanted, texts, strict=True) if text}
        else:
            fields = await call("HGETALL", keys.INBOX_SAID(name))
        return [
            Said(
                member=member,
                at=int(at),
                entry=_decoded(fields.get(member)),
                edit=_decoded(fields.get(f"{member}#edit")),
                reactions=_decoded(fields.get(f"{member}#marks")) or {},
            )
            for member, at in rows
        ]

    async def media(self, session_id: str, media_id: str) -> dict[str, str] | None:
        found: dict[str, str] = await self._connection.call("HGETALL", keys.INBOUND_MEDIA(f"{session_id}:{media_id}"))
        return found or None

    async def media_states(self, session_id: str, media_ids: list[str]) -> dict[str, str]:
        """Those that are known, by id."""
        states = await asyncio.gather(
            *(self._connection.call("HGET", keys.INBOUND_MEDIA(f"{session_id}:{i}"), "state") for i in media_ids)
        )
        return {i: state for i, state in zip(media_ids, states, strict=True) if state}

    async def _rank_after(self, key: str, member: str) -> int | None:
        """Where the page after `member` begins; None: it is not there any more, so nothing older is."""
        if not member:
            return 0
        rank = await self._connection.call("ZREVRANK", key, member)
        return None if rank is None else int(rank) + 1


def _conversation(chat: str, at: float, about: dict[str, str]) -> Conversation:
    return Conversation(
        chat=chat,
        last_at=int(at),
        name=about.get("name", ""),
        lid=about.get("lid", ""),
        unread=int(about.get("unread", 0)),
    )


def _pairs(rows: list[Any]) -> list[tuple[str, float]]:
    """[member, score, …] or [[member, score], …], as the protocol's version has it."""
    if rows and isinstance(rows[0], list | tuple):
        return [(str(member), float(score)) for member, score in rows]
    return [(str(member), float(score)) for member, score in zip(rows[::2], rows[1::2], strict=True)]


def _json(value: dict[str, Any]) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(text: str | None) -> dict[str, Any] | None:
    return msgspec.json.decode(text) if text else None
