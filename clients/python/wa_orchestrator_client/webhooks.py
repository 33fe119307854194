"""Is this webhook from our server? For receivers: call this with the raw body, before it is parsed."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping

from wa_orchestrator_client.errors import SignatureInvalid

SIGNATURE, TIMESTAMP = "x-webhook-signature", "x-webhook-timestamp"


def sign(secret: str, timestamp: str, body: bytes) -> str:
    return hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secret: str, *, tolerance_s: float = 300, now_s: float | None = None
) -> None:
    """Returns when it is; raises SignatureInvalid when it is not, or when it is older than `tolerance_s`."""
    given = {name.lower(): value for name, value in headers.items()}
    stamp, signature = given.get(TIMESTAMP, ""), given.get(SIGNATURE, "")
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 15:
        raise SignatureInvalid("the timestamp is missing")
    if not hmac.compare_digest(sign(secret, stamp, body), signature.removeprefix("sha256=").lower()):
        raise SignatureInvalid("the signature does not match")
    age_s = (time.time() if now_s is None else now_s) - int(stamp) / 1000
    if abs(age_s) > tolerance_s:
        raise SignatureInvalid("it is too old, or a clock is wrong")
