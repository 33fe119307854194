"""Phone numbers: E.164 digits, checked with Google's rules."""

from __future__ import annotations

import re
from functools import lru_cache

import phonenumbers

from wa_orchestrator.errors import InvalidPhone

_PUNCTUATION = re.compile(r"[\s().-]")
_DIGITS = re.compile(r"^\+?[0-9]{7,15}$", re.ASCII)


# WhatsApp itself still names many Mexican mobiles with the 1 that the numbering plan dropped
_MEXICAN_MOBILE = re.compile(r"^521[0-9]{10}$", re.ASCII)


def checked_phone(text: str) -> str:
    """The number as digits (972501234567); spaces, dashes and a leading + are tolerated."""
    bare = text if text.isdigit() else _PUNCTUATION.sub("", text)
    phone = _normal(bare.removeprefix("+")) if _DIGITS.match(bare) else None
    if phone is None:
        raise InvalidPhone(details={"field": "phone"})
    return phone


@lru_cache(maxsize=65536)
def _normal(digits: str) -> str | None:
    """One spelling per phone: 972 050… is 972 50…, or a phone could be bound twice. None: no such number."""
    if _MEXICAN_MOBILE.match(digits):
        return digits
    try:
        number = phonenumbers.parse(f"+{digits}")
    except phonenumbers.NumberParseException:
        return None
    if not phonenumbers.is_possible_number(number):
        return None
    e164 = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164).removeprefix("+")
    code = str(number.country_code)
    return e164 if digits == f"{code}0{e164.removeprefix(code)}" else digits
