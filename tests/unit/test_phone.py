"""Phone numbers: one spelling per phone."""

from __future__ import annotations

import pytest

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
