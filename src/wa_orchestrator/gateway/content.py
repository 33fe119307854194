"""What a message says: the caller's form becomes the one form that workers understand. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any

from wa_orchestrator.errors import InvalidBody, InvalidPhone, InvalidRecipient, TooLarge
from wa_orchestrator.gateway.recipient import recipient_jid
from wa_orchestrator.model.phone import checked_phone

_MEDIA = ("image", "video", "audio", "voice", "document", "sticker")
_LONGEST_NAME = 300
_MOST_OPTIONS = 12
Form = dict[str, Any]


def _wrong(field: str, sentence: str) -> InvalidBody:
    return InvalidBody(f"{field}: {sentence}", details={"field": field})


class ContentReader:
    def __init__(self, *, max_text: int, max_media_bytes: int) -> None:
        self._max_text = max_text
        self._max_media = max_media_bytes

    def read(self, message: object) -> Form:
        """A string, or an object with exactly one of text, image, video, audio, voice, document, sticker, location,
        contact, reaction, poll, and where it fits caption, mentions, quote, fileName, mimetype."""
        if isinstance(message, str):
            return {"kind": "text", "text": self._text("message", message)}
        if not isinstance(message, dict):
            raise _wrong("message", "send a text, or an object such as {image: {url}}.")
        kinds = [kind for kind in _KINDS if kind in message]
        if len(kinds) != 1:
            raise _wrong("message", f"it needs exactly one of {', '.join(_KINDS)}.")
        kind = kinds[0]
        content = _KINDS[kind](self, message)
        self._check_unknown(kind, message)
        if message.get("quote") is not None:
            content["quote"] = _quoted(message["quote"])
        return content

    def _check_unknown(self, kind: str, message: Form) -> None:
        allowed = {kind, "quote"} | ({"mentions"} if kind == "text" else set())
        if kind in _MEDIA:
            allowed |= {"caption", "fileName", "mimetype", "gif"}
        if unknown := set(message) - allowed:
            raise _wrong(f"message.{min(unknown)}", f"there is no such field with {kind}.")

    def _text(self, field: str, value: object, *, empty: bool = False) -> str:
        if not isinstance(value, str):
            raise _wrong(field, "write a text.")
        if not value.strip() and not empty:
            raise _wrong(field, "it is empty.")
        if len(value) > self._max_text:
            raise _wrong(field, f"it has more than {self._max_text} characters (MAX_TEXT_LENGTH).")
        return _unicode(field, value)

    def _plain(self, message: Form) -> Form:
        content: Form = {"kind": "text", "text": self._text("message.text", message["text"])}
        mentions = message.get("mentions")
        if mentions is not None:
            if not isinstance(mentions, list) or len(mentions) > 256 or not all(isinstance(m, str) for m in mentions):
                raise _wrong("message.mentions", "write a list of numbers.")
            content["mentions"] = [_jid("message.mentions", m) for m in mentions]
        return content

    def _media(self, message: Form) -> Form:
        kind = next(kind for kind in _MEDIA if kind in message)
        given = message[kind]
        source: Form = {"url": given} if isinstance(given, str) else dict(given) if isinstance(given, dict) else {}
        field = f"message.{kind}"
        media = self._source(field, source)
        for name in ("mimetype", "fileName"):
            if (value := source.pop(name, message.get(name))) is not None:
                media[name] = _name(f"{field}.{name}", value)
        content: Form = {"kind": "audio" if kind == "voice" else kind, "media": media}
        if (caption := source.pop("caption", message.get("caption"))) is not None:
            content["caption"] = self._text(f"{field}.caption", caption, empty=True)
        voice = source.pop("voice", kind == "voice")
        gif = source.pop("gif", message.get("gif", False))
        if not isinstance(voice, bool) or not isinstance(gif, bool):
            raise _wrong(field, "voice and gif are true or false.")
        if content["kind"] == "audio" and voice:
            content["voice"] = True
        if kind == "video" and gif:
            content["gif"] = True
        if source:
            raise _wrong(f"{field}.{min(source)}", "there is no such field.")
        return content

    def _source(self, field: str, source: Form) -> Form:
        named = [name for name in ("url", "base64", "data", "mediaId") if source.get(name) is not None]
        if len(named) != 1:
            raise _wrong(field, "it needs exactly one of url, base64, mediaId.")
        value = source.pop(named[0])
        for name in ("url", "base64", "data", "mediaId"):
            source.pop(name, None)
        if not isinstance(value, str):
            raise _wrong(f"{field}.{named[0]}", "write a text.")
        if named[0] == "url":
            if not value.startswith(("https://", "http://")) or len(value) > 4000 or any(c.isspace() for c in value):
                raise _wrong(f"{field}.url", "write an http or https address.")
            return {"url": _unicode(f"{field}.url", value)}
        if named[0] == "mediaId":
            return {"mediaId": _name(f"{field}.mediaId", value)}
        return {"base64": self._base64(f"{field}.{named[0]}", value)}

    def _base64(self, field: str, value: str) -> str:
        bare = value.partition(",")[2] if value.startswith("data:") else value
        if len(bare) * 3 // 4 > self._max_media:
            raise TooLarge(f"{field}: the file is larger than {self._max_media} bytes (MAX_MEDIA_BYTES). "
                           "Send a smaller one, or raise the setting.")  # fmt: skip
        try:
            if not base64.b64decode(bare, validate=True):
                raise _wrong(field, "it is empty.")
        except (binascii.Error, ValueError):
            raise _wrong(field, "it is not valid base64.") from None
        return bare

    def _location(self, message: Form) -> Form:
        place = _object("message.location", message["location"], {"latitude", "longitude", "name", "address"})
        content: Form = {"kind": "location"}
        for name, most in (("latitude", 90), ("longitude", 180)):
            value = place.get(name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not -most <= value <= most:
                raise _wrong(f"message.location.{name}", f"write a number from -{most} to {most}.")
            content[name] = value
        for name in ("name", "address"):
            if place.get(name) is not None:
                content[name] = self._text(f"message.location.{name}", place[name])
        return content

    def _contact(self, message: Form) -> Form:
        given = message["contact"]
        cards = given if isinstance(given, list) else [given]
        if not 1 <= len(cards) <= 20:
            raise _wrong("message.contact", "write one to twenty contacts.")
        return {"kind": "contact", "contacts": [self._card(card) for card in cards]}

    def _card(self, given: object) -> Form:
        card = _object("message.contact", given, {"name", "phone", "vcard"})
        content: Form = {"name": _name("message.contact.name", card.get("name"))}
        if card.get("phone") is not None:
            content["phone"] = _phone("message.contact.phone", card["phone"])
        if card.get("vcard") is not None:
            content["vcard"] = self._text("message.contact.vcard", card["vcard"])
        if len(content) == 1:
            raise _wrong("message.contact", "it needs phone or vcard.")
        return content

    def _reaction(self, message: Form) -> Form:
        given = _object("message.reaction", message["reaction"], {"emoji", "messageId", "fromMe", "participant"})
        emoji = given.get("emoji")
        if not isinstance(emoji, str) or len(emoji) > 20:
            raise _wrong("message.reaction.emoji", "write one emoji, or an empty text to take it back.")
        _unicode("message.reaction.emoji", emoji)
        return {"kind": "reaction", "emoji": emoji, "target": _target("message.reaction", given)}

    def _poll(self, message: Form) -> Form:
        poll = _object("message.poll", message["poll"], {"question", "name", "options", "selectable"})
        options = poll.get("options")
        if (
            not isinstance(options, list)
            or not 2 <= len(options) <= _MOST_OPTIONS
            or len({o for o in options if isinstance(o, str)}) != len(options)
        ):
            raise _wrong("message.poll.options", f"write two to {_MOST_OPTIONS} different answers.")
        selectable = poll.get("selectable", 1)
        if isinstance(selectable, bool) or not isinstance(selectable, int) or not 0 <= selectable <= len(options):
            raise _wrong("message.poll.selectable", "write how many answers may be chosen.")
        return {
            "kind": "poll",
            "question": _name("message.poll.question", poll.get("question", poll.get("name"))),
            "options": [_name("message.poll.options", option) for option in options],
            "selectable": selectable,
        }


def _object(field: str, value: object, names: set[str]) -> Form:
    if not isinstance(value, dict):
        raise _wrong(field, f"write an object with {', '.join(sorted(names))}.")
    if unknown := set(value) - names:
        raise _wrong(f"{field}.{min(map(str, unknown))}", "there is no such field.")
    return value


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST_NAME:
        raise _wrong(field, f"write a text of 1 to {_LONGEST_NAME} characters.")
    return _unicode(field, value)


def _unicode(field: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(field, "it is not valid Unicode text.") from None
    return value


def _jid(field: str, value: object) -> str:
    try:
        return recipient_jid(_name(field, value))
    except InvalidRecipient as error:
        raise _wrong(field, error.message) from None


def _phone(field: str, value: object) -> str:
    try:
        return checked_phone(_name(field, value))
    except InvalidPhone as error:
        raise _wrong(field, error.message) from None


def _target(field: str, given: Form) -> Form:
    """Which message is meant: one of ours by its messageId, or any by its WhatsApp id."""
    name = _name(f"{field}.messageId", given.get("messageId"))
    ours = name.startswith("msg_")
    from_me = given.get("fromMe", ours)
    if not isinstance(from_me, bool):
        raise _wrong(f"{field}.fromMe", "write true or false.")
    target: Form = {"waMessageId": wa_id_of(name) if ours else name, "fromMe": from_me}
    if given.get("participant") is not None:
        target["participant"] = _jid(f"{field}.participant", given["participant"])
    return target


def _quoted(given: object) -> Form:
    if isinstance(given, str):
        given = {"messageId": given}
    quote = _object("message.quote", given, {"messageId", "fromMe", "participant", "text"})
    content = _target("message.quote", quote)
    if quote.get("text") is not None:
        content["text"] = _name("message.quote.text", quote["text"])
    return content


def wa_id_of(message_id: str) -> str:
    """Our id and WhatsApp's are the same number written twice, so a receipt finds its message without a look-up."""
    return f"3EB0{message_id.removeprefix('msg_').upper()}"


def message_id_of(wa_message_id: str) -> str:
    return f"msg_{wa_message_id.removeprefix('3EB0').lower()}"


_KINDS: dict[str, Callable[[ContentReader, Form], Form]] = {
    "text": ContentReader._plain,
    **dict.fromkeys(_MEDIA, ContentReader._media),
    "location": ContentReader._location,
    "contact": ContentReader._contact,
    "reaction": ContentReader._reaction,
    "poll": ContentReader._poll,
}
