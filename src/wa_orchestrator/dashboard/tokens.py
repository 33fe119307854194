"""Signed words that a browser keeps for us: nobody can change them, everybody can see that they end. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac
from typing import Any

import msgspec


class Signer:
    """Seals small objects for one purpose; what was sealed for another purpose does not open here."""

    def __init__(self, secret: str, purpose: str) -> None:
        self._key = hmac.digest(secret.encode(), f"dashboard:{purpose}".encode(), hashlib.sha256)

    def seal(self, content: dict[str, Any], *, ends_at: int) -> str:
        body = _text(msgspec.json.encode({**content, "endsAt": ends_at}))
        return f"{body}.{self._mac(body)}"

    def open(self, token: str, *, now_ms: int) -> dict[str, Any] | None:
        """What was sealed, or None: not ours, changed, or over."""
        body, _, mac = token.partition(".")
        if not hmac.compare_digest(mac.encode("utf-8", "replace"), self._mac(body).encode()):
            return None
        content: dict[str, Any] = msgspec.json.decode(_bytes(body))
        return content if content["endsAt"] > now_ms else None

    def word(self, text: str) -> str:
        """A word that only we can derive from `text`, such as a CSRF token."""
        return self._mac(text)

    def _mac(self, text: str) -> str:
        return _text(hmac.digest(self._key, text.encode("utf-8", "replace"), hashlib.sha256))


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
