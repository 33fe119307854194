"""Phone numbers: one spelling per phone."""

from __future__ import annotations

import phonenumbers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.errors import InvalidPhone
from wa_orchestrator.model.phone import checked_phone


@pytest.mark.parametrize(
    ("text", "phone"),
    [
        ("972501234567", "972501234567"),
        ("+972 (50) 123-45.67", "972501234567"),
        ("15555550100", "15555550100"),
        ("390612345678", "390612345678"),  # in Italy the zero belongs to the number
        ("5215512345678", "5215512345678"),  # as WhatsApp writes many Mexican numbers
        ("5491112345678", "5491112345678"),
    ],
)
def test_numbers_become_bare_digits(text: str, phone: str) -> None:
    assert checked_phone(text) == phone


@pytest.mark.parametrize(("text", "phone"), [("9720501234567", "972501234567"), ("+44 (0)7911 123456", "447911123456")])
def test_zero_of_the_national_form_is_dropped_so_that_a_phone_has_one_spelling(text: str, phone: str) -> None:
    assert checked_phone(text) == phone


@pytest.mark.parametrize(
    "text", ["", "abc", "12345", "00972501234567", "+", "9725012345678901234", "972٥٠١٢٣٤٥٦٧", "++972501234567"]
)
def test_what_is_no_number_is_refused_with_the_field_named(text: str) -> None:
    with pytest.raises(InvalidPhone) as caught:
        checked_phone(text)
    assert caught.value.details == {"field": "phone"}


def _examples() -> list[str]:
    numbers = (phonenumbers.example_number(region) for region in sorted(phonenumbers.SUPPORTED_REGIONS))
    found = (phonenumbers.format_number(n, phonenumbers.PhoneNumberFormat.E164).removeprefix("+") for n in numbers if n)
    return [phone for phone in found if len(phone) >= 7]


@pytest.mark.parametrize("phone", _examples())
def test_the_numbers_of_every_country_pass_as_they_are(phone: str) -> None:
    assert checked_phone(phone) == phone
    assert checked_phone(f"+{phone[:3]} {phone[3:6]}-{phone[6:]}") == phone


@given(st.text(max_size=30) | st.from_regex(r"\+?[0-9 ().-]{5,22}", fullmatch=True))
def test_any_text_is_refused_or_becomes_digits_that_pass_unchanged(text: str) -> None:
    try:
        phone = checked_phone(text)
    except InvalidPhone:
        return
    assert phone.isascii()
    assert phone.isdigit()
    assert 7 <= len(phone) <= 15
    assert checked_phone(phone) == phone
