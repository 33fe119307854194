"""How much of a worker's event is kept. A worker that went mad or was taken over must not fill the store."""

from __future__ import annotations

from typing import Any

import msgspec

_MOST_BYTES = 16 * 1024  # what our own worker says about itself has a few hundred
_MOST_MESSAGE_BYTES = 256 * 1024  # WhatsApp's longest text is 65,536 characters
_LONGEST_TEXT = 500
_MOST_FIELDS = 30


def kept_data(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """The event's data as the journal keeps it: whole if it is of a sane size, else its short fields and `cut`."""
    most = _MOST_MESSAGE_BYTES if kind == "MESSAGE_RECEIVED" else _MOST_BYTES
    if len(msgspec.json.encode(data)) <= most:
        return data
    short = [(name, value) for name, value in data.items() if len(name) <= 60 and _is_short(value)]
    return {**dict(short[:_MOST_FIELDS]), "cut": True}


def _is_short(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT
    return value is None or isinstance(value, bool | int | float)
