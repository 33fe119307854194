"""Turns a worker's MESSAGE_RECEIVED into what conversations keep of it. Pure; strangers decide what it holds."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from wa_orchestrator.gateway.content import message_id_of
from wa_orchestrator.store.conversations import Received

MEDIA_ID = re.compile(r"in_[0-9a-f]{24}", re.ASCII)
_CHAT = re.compile(r"[0-9]{5,20}(?:-[0-9]{5,20})?@(?:g\.us|lid)|[0-9]{5,20}", re.ASCII)
_LONGEST_TEXT = 4096  # the event itself has all of it
_LONGEST_NAME = 100
_LONGEST_ID = 128
_PARTS = ("location", "poll", "pollVote")
_ABOUT_MEDIA = ("kind", "mimetype", "sizeBytes", "fileName", "voice", "durationS", "state", "mediaId")


def received(data: dict[str, Any], *, at: int) -> Received | None:
    """None: it says nothing that belongs to a conversation. `at`: when the worker told it; nothing is later."""
    chat = _chat(data.get("chat") or data.get("from"))
    wa = _text(data.get("waMessageId"), _LONGEST_ID)
    if not chat or not wa:
        return None
    is_group = chat.endswith("@g.us")
    lid = "" if is_group else _chat(data.get("fromLid"))
    sent_at = data.get("timestamp")
    told = Received(
        chat=chat,
        lid=lid if lid.endswith("@lid") else "",
        name="" if is_group else _text(data.get("pushName"), _LONGEST_NAME),
        sender=_chat(data.get("from")) or chat,
        at=min(at, sent_at) if isinstance(sent_at, int) and not isinstance(sent_at, bool) and sent_at > 0 else at,
        wa=wa,
        media=_media(data, wa=wa),
    )
    return _with_content(told, data)


def media_outcome(kind: str, data: dict[str, Any]) -> tuple[str, dict[str, str | int]] | None:
    """(media id, what its record says from now on) of a MEDIA_READY or MEDIA_FAILED."""
    media_id = str(data.get("mediaId") or "")
    if not MEDIA_ID.fullmatch(media_id):
        return None
    fields = _described(data)
    if kind == "MEDIA_READY":
        return media_id, {**fields, "state": "ready"}
    error = data.get("error")
    reason = _text(error.get("code") if isinstance(error, dict) else error, _LONGEST_NAME)
    return media_id, {**fields, "state": "failed", "reason": reason or "UNAVAILABLE"}


def _with_content(told: Received, data: dict[str, Any]) -> Received | None:
    changes = {name: _part(data, name) for name in ("reaction", "edit", "deletion")}
    target = next((_text(part.get("waMessageId"), _LONGEST_ID) for part in changes.values() if part), "")
    if changes["reaction"]:
        # of theirs or of ours: ours are kept by their message id
        members = [target, message_id_of(target)] if target.startswith("3EB0") else [target]
        return replace(told, reaction=(members, _text(changes["reaction"].get("emoji"), 40)))
    if changes["edit"]:
        return replace(told, edit=(target, {"text": _text(changes["edit"].get("text")), "at": told.at}))
    if changes["deletion"]:
        return replace(told, deletion=(target, {"kind": "deleted", "from": told.sender}))
    if data.get("kind") in {"reaction", "edit", "delete"}:
        return None  # about a message that it does not name
    return replace(told, entry=_entry(told, data))


def _entry(told: Received, data: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": _text(data.get("kind"), 20) or "text", "from": told.sender}
    if text := _text(data.get("text")):
        entry["text"] = text
    if told.chat.endswith("@g.us") and (name := _text(data.get("pushName"), _LONGEST_NAME)):
        entry["name"] = name
    if media := _part(data, "media"):
        entry["media"] = {name: media[name] for name in _ABOUT_MEDIA if name in media}
    if reply := _part(data, "replyTo"):
        entry["replyTo"] = {
            "waMessageId": _text(reply.get("waMessageId"), _LONGEST_ID),
            "text": _text(reply.get("text")),
        }
    if isinstance(contacts := data.get("contacts"), list):
        # a card may have kilobytes, and the event has it
        entry["contacts"] = [_text(card.get("name"), _LONGEST_NAME) for card in contacts[:20] if isinstance(card, dict)]
    entry.update({name: part for name in _PARTS if (part := _part(data, name))})
    return entry


def _media(data: dict[str, Any], *, wa: str) -> tuple[str, dict[str, str | int]] | None:
    media = _part(data, "media")
    media_id = str(media.get("mediaId") or "")
    if not MEDIA_ID.fullmatch(media_id):
        return None
    return media_id, {**_described(media), "state": "pending", "waMessageId": wa}


def _described(media: dict[str, Any]) -> dict[str, str | int]:
    fields: dict[str, str | int] = {
        name: text for name in ("kind", "mimetype", "fileName", "sha256") if (text := _text(media.get(name), 255))
    }
    size = media.get("sizeBytes")
    return {**fields, "sizeBytes": size} if isinstance(size, int) and not isinstance(size, bool) else fields


def _part(data: dict[str, Any], name: str) -> dict[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _text(value: object, most: int = _LONGEST_TEXT) -> str:
    return value[:most] if isinstance(value, str) else ""


def _chat(value: object) -> str:
    """As recipients are named in the store: the number where there is one, else …@lid or …@g.us."""
    name = str(value or "").removesuffix("@s.whatsapp.net")
    return name if _CHAT.fullmatch(name) else ""
