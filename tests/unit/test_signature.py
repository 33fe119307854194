"""Who may speak for a session."""

from __future__ import annotations

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.errors import InvalidSignature
from wa_orchestrator.worker_api.signature import TOLERANCE_MS, check_signature, session_secret, sign

NOW = 1_700_000_000_000
BODY = b'{"sessionId":"worker_1"}'
SECRET = session_secret("installation", "worker_1")


def check(
    signature: str | None = None,
    *,
    timestamp: str | None = str(NOW),
    plain: str | None = None,
    body: bytes = BODY,
) -> None:
    check_signature(
        secret=SECRET, body=body, now_ms=NOW, timestamp=timestamp, signature=signature, plain_secret=plain
    )  # fmt: skip


def test_the_secret_of_a_session_is_derived_as_the_protocol_says() -> None:
    assert hmac.new(b"installation", b"worker_1", hashlib.sha256).hexdigest() == SECRET
    assert session_secret("installation", "worker_2") != SECRET


def test_the_signature_covers_timestamp_and_body_as_the_protocol_says() -> None:
    right = hmac.new(SECRET.encode(), f"{NOW}.".encode() + BODY, hashlib.sha256).hexdigest()
    assert sign(SECRET, str(NOW), BODY) == right
    check(right)
    check(f"sha256={right}")


@pytest.mark.parametrize("off", [0, TOLERANCE_MS, -TOLERANCE_MS])
def test_a_fresh_timestamp_passes(off: int) -> None:
    stamp = str(NOW + off)
    check(sign(SECRET, stamp, BODY), timestamp=stamp)


@pytest.mark.parametrize("off", [TOLERANCE_MS + 1, -TOLERANCE_MS - 1, 10**12, -NOW])
def test_a_stale_timestamp_is_refused_though_rightly_signed(off: int) -> None:
    stamp = str(NOW + off)
    with pytest.raises(InvalidSignature):
        check(sign(SECRET, stamp, BODY), timestamp=stamp)


@pytest.mark.parametrize("stamp", ["", "abc", "-5", "1.5", "²", f"{NOW}.0", f" {NOW}", f"{NOW}000"])
def test_what_is_no_timestamp_is_refused_though_rightly_signed(stamp: str) -> None:
    with pytest.raises(InvalidSignature):
        check(sign(SECRET, stamp, BODY), timestamp=stamp)


def test_another_sessions_secret_is_refused() -> None:
    other = session_secret("installation", "worker_2")
    with pytest.raises(InvalidSignature):
        check(sign(other, str(NOW), BODY))
    with pytest.raises(InvalidSignature):
        check(plain=other)


def test_the_installations_own_secret_is_refused() -> None:
    with pytest.raises(InvalidSignature):
        check(sign("installation", str(NOW), BODY))
    with pytest.raises(InvalidSignature):
        check(plain="installation")


def test_an_older_worker_may_send_the_secret_itself() -> None:
    check(plain=SECRET)
    check(plain=SECRET, timestamp=None)


def test_a_wrong_signature_is_not_saved_by_the_right_plain_secret() -> None:
    with pytest.raises(InvalidSignature):
        check("0" * 64, plain=SECRET)


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(InvalidSignature):
        check()
    with pytest.raises(InvalidSignature):
        check(plain="")
    with pytest.raises(InvalidSignature):
        check(sign(SECRET, str(NOW), BODY), timestamp=None)


@given(st.text(max_size=100), st.text(max_size=30))
def test_no_text_at_all_passes_or_breaks_the_check(signature: str, stamp: str) -> None:
    with pytest.raises(InvalidSignature):
        check(signature, timestamp=stamp)


@given(st.integers(0, len(BODY) - 1))
def test_one_changed_byte_is_noticed(place: int) -> None:
    changed = BODY[:place] + bytes([BODY[place] ^ 1]) + BODY[place + 1 :]
    with pytest.raises(InvalidSignature):
        check(sign(SECRET, str(NOW), BODY), body=changed)
