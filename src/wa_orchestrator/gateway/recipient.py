"""Who a message goes to: digits, +E.164 or a chat id, as a full WhatsApp id."""

from __future__ import annotations

import re

from wa_orchestrator.errors import InvalidPhone, InvalidRecipient
from wa_orchestrator.model.phone import checked_phone

_CHAT = re.compile(r"^(?P<user>[0-9]{5,20}(?:-[0-9]{5,20})?)@(?P<server>c\.us|s\.whatsapp\.net|g\.us|lid)$", re.ASCII)


def recipient_jid(text: str) -> str:
    """`972501234567`, `+972 50-123-4567`, `…@c.us`, `…@s.whatsapp.net`, `…@g.us`, `…@lid`."""
    found = _CHAT.match(text.strip()) if "@" in text else None
    if found and found["server"] in {"g.us", "lid"}:
        return f"{found['user']}@{found['server']}"
    if "@" in text and not found:
        raise InvalidRecipient(details={"field": "to"})
    try:
        return f"{checked_phone(found['user'] if found else text)}@s.whatsapp.net"
    except InvalidPhone:
        raise InvalidRecipient(details={"field": "to"}) from None


def recipient_key(jid: str) -> str:
    """How a recipient is named in the store: the phone number where there is one."""
    return jid.removesuffix("@s.whatsapp.net")
