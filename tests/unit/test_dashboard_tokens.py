"""Signed words and passwords."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.dashboard import passwords
from wa_orchestrator.dashboard.tokens import Signer
from wa_orchestrator.errors import BadRequest

SIGNER = Signer("secret", "sign-in")


def test_what_was_sealed_opens_until_it_ends() -> None:
    token = SIGNER.seal({"name": "dana"}, ends_at=1000)
    assert SIGNER.open(token, now_ms=999) == {"name": "dana", "endsAt": 1000}
    assert SIGNER.open(token, now_ms=1000) is None


@given(st.text(max_size=200))
def test_what_was_not_sealed_does_not_open(text: str) -> None:
    assert SIGNER.open(text, now_ms=0) is None


@given(st.integers(min_value=0, max_value=200), st.characters())
def test_a_changed_token_does_not_open(place: int, character: str) -> None:
    token = SIGNER.seal({"name": "dana"}, ends_at=1000)
    changed = token[: place % len(token)] + character + token[place % len(token) + 1 :]
    assert changed == token or SIGNER.open(changed, now_ms=0) is None


def test_another_purpose_or_secret_does_not_open_it() -> None:
    token = SIGNER.seal({}, ends_at=1000)
    assert Signer("secret", "scan-link").open(token, now_ms=0) is None
    assert Signer("other", "sign-in").open(token, now_ms=0) is None


def test_a_password_matches_its_own_hash_only() -> None:
    kept = passwords.hashed("correct horse")
    assert "correct" not in kept
    assert passwords.matches("correct horse", kept)
    assert not passwords.matches("correct horsf", kept)
    assert kept != passwords.hashed("correct horse"), "each has a salt of its own"


def test_a_short_password_is_refused() -> None:
    with pytest.raises(BadRequest, match="10 characters"):
        passwords.hashed("short")
