"""Says which field of a worker's request is wrong."""

from __future__ import annotations

import re

import msgspec

from wa_orchestrator.errors import InvalidBody

_PLACE = re.compile(r" - at `\$\.?(?P<field>.*)`$")
_MISSING = re.compile(r"missing required field `(?P<field>\w+)`")
_UNKNOWN = re.compile(r"unknown field `(?P<field>\w+)`")


def malformed(what: str, error: msgspec.ValidationError) -> InvalidBody:
    """msgspec's finding as our error, with the field named."""
    text = str(error)
    found = _MISSING.search(text) or _UNKNOWN.search(text) or _PLACE.search(text)
    details: dict[str, object] | None = {"field": found["field"]} if found and found["field"] else None
    return InvalidBody(f"The {what} is malformed: {text}.", details=details)
