"""WAHA's ways to send as our one way, and our answer as WAHA's message. Pure."""

from __future__ import annotations

from typing import Any

from wa_orchestrator.errors import InvalidBody, InvalidPhone
from wa_orchestrator.gateway.accept import SendBody
from wa_orchestrator.gateway.content import wa_id_of
from wa_orchestrator.gateway.recipient import recipient_jid
from wa_orchestrator.model.phone import checked_phone
from wa_orchestrator.waha import bodies
from wa_orchestrator.waha.names import MessageRef, ack_of, chat_id, message_id

Content = dict[str, Any]


# in -------------------------------------------------------------------------------------------------------------
def text_content(body: bodies.Text) -> Content:
    return {"text": body.text, **({"mentions": body.mentions} if body.mentions else {})}


def media_content(kind: str, body: bodies.Media) -> Content:
    file = body.file
    if (file.url is None) == (file.data is None):
        raise InvalidBody("file: it needs either url or data (base64).", details={"field": "file"})
    source = {"url": file.url} if file.url is not None else {"base64": file.data}
    named = {"mimetype": file.mimetype, "fileName": file.filename, "caption": body.caption}
    if kind == "voice":
        named["caption"] = None  # a voice note has none
    return {kind: {**source, **{name: value for name, value in named.items() if value}}}


def location_content(body: bodies.Location) -> Content:
    place: Content = {"latitude": body.latitude, "longitude": body.longitude}
    return {"location": {**place, **({"name": body.title} if body.title else {})}}


def contacts_content(body: bodies.Contacts) -> Content:
    return {"contact": [_card(card) for card in body.contacts]}


def _card(card: bodies.ContactCard) -> Content:
    if card.vcard:
        return {"name": _name_in(card.vcard) or card.fullName or "Contact", "vcard": card.vcard}
    if not card.fullName or not (card.whatsappId or card.phoneNumber):
        raise InvalidBody("contacts: each needs vcard, or fullName and phoneNumber.", details={"field": "contacts"})
    try:
        phone = checked_phone(card.whatsappId or card.phoneNumber or "")
    except InvalidPhone as error:
        raise InvalidBody(f"contacts.phoneNumber: {error.message}", details={"field": "contacts"}) from None
    if not card.organization:
        return {"name": card.fullName, "phone": phone}
    lines = ["BEGIN:VCARD", "VERSION:3.0", f"FN:{_escaped(card.fullName)}", f"ORG:{_escaped(card.organization)};",
             f"TEL;type=CELL;type=VOICE;waid={phone}:+{phone}", "END:VCARD"]  # fmt: skip
    return {"name": card.fullName, "vcard": "\n".join(lines)}


def _name_in(vcard: str) -> str:
    names = (line.partition(":")[2].strip() for line in vcard.splitlines() if line.upper().startswith(("FN:", "FN;")))
    return next(names, "")[:200]


def _escaped(text: str) -> str:
    """A line of a vCard is one line: what would end it, or split it, is written as RFC 2426 says."""
    safe = text.replace("\\", "\\\\").replace(",", "\\,").replace(";", "\\;")
    return " ".join(safe.splitlines())


def poll_content(body: bodies.Poll) -> Content:
    options = body.poll.options
    several = len(options) if body.poll.multipleAnswers else 1
    return {"poll": {"question": body.poll.name, "options": options, "selectable": several}}


def reaction_content(emoji: str, target: MessageRef) -> Content:
    return {"reaction": {"emoji": emoji, **_named(target)}}


def _named(target: MessageRef) -> Content:
    named: Content = {"messageId": target.wa_message_id}
    if target.mine is not None:
        named["fromMe"] = target.mine
    if target.participant:
        named["participant"] = target.participant
    return named


def send_body(session: str, to: str, content: Content, *, reply_to: MessageRef | None = None) -> SendBody:
    if reply_to is not None:
        content = {**content, "quote": _named(reply_to)}
    return SendBody(to=to, message=content, session_id=session)


# out ------------------------------------------------------------------------------------------------------------
def queued_message(accepted: dict[str, Any], *, chat: str, me: str, at_ms: int, content: Content) -> dict[str, Any]:
    """Our 202 as WAHA's message: it is queued, so its ack is PENDING; `_data` holds our own answer."""
    wa_message_id = wa_id_of(accepted["messageId"])
    body, has_media = _shown(content)
    return {
        **outgoing(wa_message_id=wa_message_id, chat=chat, me=me, at_ms=at_ms, state="accepted"),
        "body": body,
        "hasMedia": has_media,
        # as WAHA's Baileys engine answers
        "key": {"remoteJid": recipient_jid(chat), "fromMe": True, "id": wa_message_id},
        "_data": accepted,
    }


def outgoing(*, wa_message_id: str, chat: str, me: str, at_ms: int, state: str) -> dict[str, Any]:
    """What is known of each message of ours, whatever it says."""
    ack, ack_name = ack_of(state)
    return {
        "id": message_id(mine=True, chat=chat, wa_message_id=wa_message_id),
        "timestamp": at_ms // 1000,
        "from": chat_id(me) if me else None,
        "fromMe": True,
        "source": "api",
        "to": chat_id(chat),
        "participant": None,
        "body": "",
        "hasMedia": False,
        "media": None,
        "mediaUrl": None,
        "ack": ack,
        "ackName": ack_name,
        "vCards": [],
        "replyTo": None,
    }


def _shown(content: Content) -> tuple[str, bool]:
    """(text, has it a file) of a message in the caller's form."""
    if "text" in content:
        return str(content["text"]), False
    for kind in ("image", "video", "voice", "document"):
        if kind in content:
            return str(content[kind].get("caption", "")), True
    return "", False
