"""Proves that a request comes from the worker of a session: HMAC with a secret that only this session has."""

from __future__ import annotations

import hmac
from functools import lru_cache

from wa_orchestrator.errors import InvalidSignature

# Clocks of containers on one machine agree; a retried event gets a new timestamp with every attempt.
TOLERANCE_MS = 5 * 60 * 1000


@lru_cache(maxsize=10_000)
def session_secret(webhook_secret: str, session_id: str) -> str:
    """The secret of one session, derived from the installation's."""
    return hmac.digest(webhook_secret.encode(), session_id.encode(), "sha256").hex()


def sign(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.digest(secret.encode(), timestamp.encode() + b"." + body, "sha256").hex()


def check_signature(
    *, secret: str, body: bytes, now_ms: int, timestamp: str | None, signature: str | None, plain_secret: str | None
) -> None:
    """Raises InvalidSignature unless the request is signed, fresh, or carries the secret itself (older workers)."""
    if signature is None and plain_secret is not None:
        if not hmac.compare_digest(plain_secret.encode(), secret.encode()):
            raise InvalidSignature
        return
    if signature is None or timestamp is None:
        raise InvalidSignature("The headers X-Webhook-Signature and X-Webhook-Timestamp are needed.")
    given = signature.removeprefix("sha256=")
    if not hmac.compare_digest(given.encode(), sign(secret, timestamp, body).encode()):
        raise InvalidSignature
    if not timestamp.isascii() or not timestamp.isdigit() or abs(now_ms - int(timestamp[:15])) > TOLERANCE_MS:
        raise InvalidSignature("The timestamp is more than five minutes off. Check the clocks.")
