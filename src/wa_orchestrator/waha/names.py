"""WAHA's words for ours: states, chat ids, message ids, acknowledgements. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from wa_orchestrator.model.session import Session, Status, Wanted

# A session that comes back by itself is "starting"; "failed" means that somebody has to act.
_STATUS = {
    Status.PENDING: "STARTING",
    Status.QR_READY: "SCAN_QR_CODE",
    Status.CONNECTED: "WORKING",
    Status.RECONNECTING: "STARTING",
    Status.DISCONNECTED: "STARTING",
    Status.UNHEALTHY: "STARTING",
    Status.LOGGED_OUT: "FAILED",
    Status.FAILED: "FAILED",
    Status.STOPPED: "STOPPED",
}
_ACKS = {"failed": (-1, "ERROR"), "accepted": (0, "PENDING"), "sent": (1, "SERVER"), "delivered": (2, "DEVICE"),
         "read": (3, "READ"), "played": (4, "PLAYED")}  # fmt: skip
_FULL_ID = re.compile(
    r"^(?P<mine>true|false)_(?P<chat>[0-9-]{5,41}@[a-z.]{3,20})_(?P<id>[A-Za-z0-9]{1,64})"
    r"(?:_(?P<participant>[0-9]{5,20}@[a-z.]{3,20}))?$"
)


def status_name(status: Status) -> str:
    return _STATUS[status]


def status_of(session: Session) -> str:
    return "STOPPED" if session.wanted is Wanted.STOPPED else status_name(session.status)


def ack_of(state: str) -> tuple[int, str]:
    """How far a message got; what is not sent yet is pending."""
    return _ACKS.get(state, _ACKS["accepted"])


def chat_id(name: str) -> str:
    """`972501234567@c.us` for a person, however we name them; groups and LIDs as they are."""
    bare = name.removesuffix("@s.whatsapp.net")
    user, at, server = bare.partition("@")
    user = user.partition(":")[0]  # without the device
    return f"{user}@{server}" if at else f"{user}@c.us"


def message_id(*, mine: bool, chat: str, wa_message_id: str, participant: str = "") -> str:
    """`false_972501234567@c.us_3EB0…`; in a group with the sender at its end."""
    whole = f"{'true' if mine else 'false'}_{chat_id(chat)}_{wa_message_id}"
    return f"{whole}_{chat_id(participant)}" if participant and chat.endswith("@g.us") else whole


@dataclass(frozen=True, kw_only=True)
class MessageRef:
    """A message as a caller names it. Without a chat it was named by WhatsApp's id (or ours) alone."""

    wa_message_id: str
    mine: bool | None = None
    chat: str = ""
    participant: str = ""


def read_message_id(text: str) -> MessageRef:
    found = _FULL_ID.match(text)
    if not found:
        return MessageRef(wa_message_id=text)
    return MessageRef(
        wa_message_id=found["id"],
        mine=found["mine"] == "true",
        chat=found["chat"],
        participant=found["participant"] or "",
    )
