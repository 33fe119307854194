"""Conversations as the API shows them: received and sent messages in one form. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from wa_orchestrator.clock import iso
from wa_orchestrator.store.conversations import Conversation, Said

_PARTS = ("replyTo", "location", "contacts", "poll", "pollVote")
_ABOUT_MEDIA = ("kind", "mimetype", "sizeBytes", "fileName", "state", "mediaId")


def conversation_view(conversation: Conversation, last: dict[str, Any] | None) -> dict[str, Any]:
    chat = conversation.chat
    is_lid = chat.endswith("@lid")
    return {
        "chat": chat,
        "phone": chat if "@" not in chat else None,
        "lid": chat if is_lid else conversation.lid or None,
        "isGroup": chat.endswith("@g.us"),
        "name": conversation.name or None,
        "unread": conversation.unread,
        "lastAt": iso(conversation.last_at),
        "lastMessage": last,
    }


def message_views(
    said: list[Said], *, sent: dict[str, dict[str, str]], media_states: dict[str, str], session_id: str
) -> list[dict[str, Any]]:
    """In the order given. One of ours that was forgotten (MESSAGE_KEEP_DAYS) is left out."""
    views = []
    for one in said:
        if one.entry is not None:
            views.append(_received(one, one.entry, media_states, session_id))
        elif one.member in sent:
            views.append(_sent(one, sent[one.member]))
    return views


def media_ids(said: list[Said]) -> list[str]:
    found = [(one.entry or {}).get("media", {}).get("mediaId") for one in said]
    return [media_id for media_id in found if media_id]


def _received(one: Said, entry: dict[str, Any], media_states: dict[str, str], session_id: str) -> dict[str, Any]:
    media, edit = entry.get("media"), one.edit
    return {
        "id": one.member,
        "direction": "in",
        "waMessageId": one.member,
        "messageId": None,
        "at": iso(one.at),
        "kind": entry.get("kind"),
        "from": entry.get("from"),
        "name": entry.get("name"),
        "text": (edit or entry).get("text"),
        "status": None,
        "editedAt": iso(edit["at"]) if edit else None,
        "deleted": entry.get("kind") == "deleted",
        "media": _media(media, media_states, session_id) if media else None,
        **{name: entry.get(name) for name in _PARTS},
        "reactions": _reactions(one),
    }


def _media(media: dict[str, Any], states: dict[str, str], session_id: str) -> dict[str, Any]:
    media_id = media.get("mediaId")
    # a record that is gone was removed with its file
    state = states.get(media_id, "removed") if media_id else media.get("state")
    url = f"/api/v1/sessions/{session_id}/media/{media_id}" if state == "ready" else None
    return {**dict.fromkeys(_ABOUT_MEDIA), **media, "state": state, "url": url}


def _sent(one: Said, record: dict[str, str]) -> dict[str, Any]:
    content = msgspec.json.decode(record.get("content", "{}"))
    media, quote = content.get("media"), content.get("quote")
    return {
        "id": one.member,
        "direction": "out",
        "waMessageId": record["wa"],
        "messageId": record["id"],
        "at": iso(one.at),
        "kind": content.get("kind"),
        "from": record.get("lane") or None,
        "name": None,
        "text": content.get("text") or content.get("caption"),
        "status": record["state"],
        "editedAt": None,
        "deleted": False,
        # the file itself may be in the message: it is not told again
        "media": {**dict.fromkeys(_ABOUT_MEDIA), "kind": content.get("kind"), "url": None,
                  **{name: media.get(name) for name in ("mimetype", "fileName")}} if media else None,
        **dict.fromkeys(_PARTS),
        "replyTo": {"waMessageId": quote.get("waMessageId"), "text": quote.get("text")} if quote else None,
        "reactions": _reactions(one),
    }  # fmt: skip


def _reactions(one: Said) -> list[dict[str, str]]:
    return [{"from": who, "emoji": emoji} for who, emoji in sorted(one.reactions.items())]
