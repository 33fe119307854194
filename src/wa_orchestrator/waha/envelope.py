"""A journal entry as WAHA's webhook: which of its events it is, the body, and the headers with the signature. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Collection, Mapping
from typing import Any

from wa_orchestrator import __version__
from wa_orchestrator.model.session import Status
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator.waha.messages import outgoing
from wa_orchestrator.waha.names import ack_of, chat_id, message_id, status_name

ENGINE = "NOWEB"  # WAHA's name for Baileys, which our workers run on
RECEIVED = "MESSAGE_RECEIVED"
TEST = "webhook.test"  # an operator tries the address; WAHA has no such event

# A WAHA webhook that wants `message` and `message.any` is told of an incoming message twice. Each of our subscriptions
# is told once per journal entry; so such a webhook becomes two subscriptions, one per line here.
LINES: tuple[frozenset[str], frozenset[str]] = (
    frozenset({"session.status", "message", "message.reaction", "message.ack", "message.edited", "message.revoked"}),
    frozenset({"message.any", "state.change"}),
)
KNOWN_EVENTS = LINES[0] | LINES[1]

_ACKS = ("message.sent", "message.delivered", "message.read", "message.played", "message.failed")
JOURNAL_TYPES: dict[str, tuple[str, ...]] = {
    "session.status": ("session.status",),
    "state.change": ("session.status",),
    "message": (RECEIVED,),
    "message.reaction": (RECEIVED,),
    "message.edited": (RECEIVED,),
    "message.revoked": (RECEIVED,),
    "message.any": (RECEIVED, "message.sent"),
    "message.ack": _ACKS,
}
# incoming messages that WAHA has events of their own for
_OWN_EVENT = {"reaction": "message.reaction", "edit": "message.edited", "delete": "message.revoked"}
_NOWHERE = frozenset({"poll_vote"})

Facts = Mapping[str, Any]  # of the session: phone, jid, lid, name, label, metadata; empty when unknown
Json = dict[str, Any]


def events_of(entry: JournalEntry) -> tuple[str, ...]:
    """WAHA's events for an entry; none when it means nothing there."""
    if entry.type == RECEIVED:
        kind = str(entry.data.get("kind"))
        own = _OWN_EVENT.get(kind)
        return (own,) if own else () if kind in _NOWHERE else ("message", "message.any")
    if entry.type == "session.status":
        # several of our states are one of theirs: what looks the same there is no change
        told = ("state.change",)
        return told if _shown(entry.data.get("was")) == _shown(entry.data.get("status")) else ("session.status", *told)
    if entry.type == "message.sent":
        return ("message.ack", "message.any")
    return ("message.ack",) if entry.type in _ACKS else ()


def _shown(status: object) -> str:
    return status_name(Status(str(status))) if status in set(Status) else ""


def event_for(entry: JournalEntry, wanted: Collection[str]) -> str | None:
    """The one event of `wanted` (a part of one of LINES) that an entry is."""
    return next((event for event in events_of(entry) if event in wanted), None)


def envelope(entry: JournalEntry, event: str, session: Facts, *, base_url: str) -> Json:
    """`base_url`: where the receiver reaches us, for the files of incoming messages."""
    line = 1 if event in LINES[1] else 0
    return {
        # the same in every repeat, so that a receiver can tell one
        "id": f"evt_{entry.number:025d}{line}",
        "timestamp": entry.at,
        "event": event,
        "session": entry.session_id,
        "metadata": session.get("metadata") or {},
        "me": me_of(session),
        "payload": _PAYLOADS[event](entry, session, base_url),
        "engine": ENGINE,
        "environment": environment(entry.session_id),
    }


def me_of(session: Facts) -> Json | None:
    """The account; none before the first scan and after a log-out."""
    if not session.get("phone") or not session.get("jid"):
        return None
    return {
        "id": chat_id(session["phone"]),
        "lid": session.get("lid") or None,
        "jid": session["jid"],
        "pushName": session.get("name") or session.get("label") or "",
    }


def environment(worker: str = "") -> Json:
    return {"version": __version__, "engine": ENGINE, "tier": "CORE", "browser": None, "platform": "wa-orchestrator",
            "worker": {"id": worker}}  # fmt: skip


# payloads -------------------------------------------------------------------------------------------------------
def _status(entry: JournalEntry, _session: Facts, _base: str) -> Json:
    status = _shown(entry.data.get("status"))
    return {
        "name": entry.session_id,
        "status": status,
        "statuses": [{"status": status, "timestamp": entry.at}],
        "data": {"reason": entry.data["reason"]} if entry.data.get("reason") else None,
    }


def _state(entry: JournalEntry, _session: Facts, _base: str) -> Json:
    return {"state": entry.data.get("status"), "was": entry.data.get("was"), "reason": entry.data.get("reason")}


def _ack(entry: JournalEntry, session: Facts, _base: str) -> Json:
    ack, name = ack_of(entry.type.removeprefix("message."))
    to = str(entry.data.get("to", ""))
    return {
        "id": message_id(mine=True, chat=to, wa_message_id=str(entry.data.get("waMessageId", ""))),
        "from": _mine(session),
        "to": chat_id(to),
        "participant": None,
        "fromMe": True,
        "ack": ack,
        "ackName": name,
        "_data": entry.data,
    }


def _any(entry: JournalEntry, session: Facts, base: str) -> Json:
    if entry.type == RECEIVED:
        return _received(entry, session, base)
    told = outgoing(
        wa_message_id=str(entry.data.get("waMessageId", "")),
        chat=str(entry.data.get("to", "")),
        me=_mine(session) or "",
        at_ms=entry.at,
        state="sent",
    )
    # what it says is not in the journal; `_data.messageId` leads to it
    return {**told, "_data": entry.data}


def _received(entry: JournalEntry, session: Facts, base: str) -> Json:
    data = entry.data
    media = _media(entry, base)
    place = _part(data, "location")
    return {
        **_address(entry, session),
        "body": data.get("text") or "",
        "hasMedia": media is not None,
        "media": media,
        "mediaUrl": media["url"] if media else None,
        "ack": 2,
        "ackName": "DEVICE",
        "location": {
            "latitude": str(place.get("latitude")),
            "longitude": str(place.get("longitude")),
            "description": place.get("name"),
        }
        if place
        else None,
        "vCards": [card["vcard"] for card in data.get("contacts") or [] if card.get("vcard")],
        "replyTo": _reply(_part(data, "replyTo")),
        "_data": data,
    }


def _media(entry: JournalEntry, base: str) -> Json | None:
    """WAHA gives an address. The file may take a moment longer than the event; see docs/howto/waha.md."""
    media = _part(entry.data, "media")
    if not media:
        return None
    media_id = media.get("mediaId")
    return {
        "url": f"{base}/api/v1/sessions/{entry.session_id}/media/{media_id}" if media_id else None,
        "mimetype": media.get("mimetype"),
        "filename": media.get("fileName"),
        "error": None if media_id else {"message": f"The file is not fetched: {media.get('state', 'unknown')}."},
    }


def _reply(quoted: Json) -> Json | None:
    if not quoted:
        return None
    return {
        "id": quoted.get("waMessageId"),
        "participant": chat_id(str(quoted["participant"])) if quoted.get("participant") else None,
        "body": quoted.get("text"),
        "hasMedia": False,
    }


def _address(entry: JournalEntry, session: Facts) -> Json:
    """Who wrote it, where, and when."""
    data = entry.data
    chat = str(data.get("chat") or data.get("from") or "")
    sender = str(data.get("from", ""))
    in_group = chat.endswith("@g.us")
    name = str(data.get("waMessageId", ""))
    return {
        "id": message_id(mine=False, chat=chat, wa_message_id=name, participant=sender),
        "timestamp": int(data.get("timestamp") or entry.at) // 1000,
        "from": chat_id(chat),
        "fromMe": False,
        "source": "app",
        "to": _mine(session),
        "participant": chat_id(sender) if in_group else None,
        "author": chat_id(sender) if in_group else None,
    }


def _reaction(entry: JournalEntry, session: Facts, _base: str) -> Json:
    reaction = _part(entry.data, "reaction")
    about = {"text": reaction.get("emoji", ""), "messageId": _target(reaction)}
    return {**_address(entry, session), "reaction": about, "_data": entry.data}


def _edited(entry: JournalEntry, session: Facts, base: str) -> Json:
    return {**_received(entry, session, base), "editedMessageId": _target(_part(entry.data, "edit"))}


def _revoked(entry: JournalEntry, session: Facts, base: str) -> Json:
    revoked = _target(_part(entry.data, "deletion"))
    return {"after": _received(entry, session, base), "before": None, "revokedMessageId": revoked}


def _target(about: Json) -> str | None:
    """The message that this one is about, by WhatsApp's own id: whose it was is not always told."""
    return about.get("waMessageId")


def _part(data: Json, name: str) -> Json:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _mine(session: Facts) -> str | None:
    return chat_id(session["phone"]) if session.get("phone") else None


_PAYLOADS: dict[str, Callable[[JournalEntry, Facts, str], Json]] = {
    "session.status": _status,
    "state.change": _state,
    "message": _received,
    "message.any": _any,
    "message.reaction": _reaction,
    "message.edited": _edited,
    "message.revoked": _revoked,
    "message.ack": _ack,
    TEST: lambda entry, _session, _base: entry.data,
}


# on the wire ----------------------------------------------------------------------------------------------------
def webhook_headers(body: bytes, *, key: str, request_id: str, now_ms: int) -> dict[str, str]:
    """WAHA signs the raw body alone, SHA-512, hex; its timestamp is not part of it."""
    headers = {"X-Webhook-Request-Id": request_id, "X-Webhook-Timestamp": str(now_ms)}
    if key:
        headers["X-Webhook-Hmac"] = hmac.new(key.encode(), body, hashlib.sha512).hexdigest()
        headers["X-Webhook-Hmac-Algorithm"] = "sha512"
    return headers
