"""Passwords are kept as scrypt hashes: guessing one costs 16 MB and a twentieth of a second each time."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from wa_orchestrator.errors import BadRequest

SHORTEST = 10
_COST, _BLOCK, _LANES = 1 << 14, 8, 1
_MEMORY = 64 << 20


def hashed(password: str) -> str:
    """`scrypt$cost$block$lanes$salt$hash`; raises when the password is too short."""
    if len(password) < SHORTEST:
        raise BadRequest(f"A password has at least {SHORTEST} characters.")
    salt = secrets.token_bytes(16)
    digest = _scrypt(password, salt, _COST, _BLOCK, _LANES)
    return f"scrypt${_COST}${_BLOCK}${_LANES}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def matches(password: str, kept: str) -> bool:
    _, cost, block, lanes, salt, digest = kept.split("$")
    found = _scrypt(password, base64.b64decode(salt), int(cost), int(block), int(lanes))
    return hmac.compare_digest(found, base64.b64decode(digest))


def _scrypt(password: str, salt: bytes, cost: int, block: int, lanes: int) -> bytes:
    return hashlib.scrypt(
        password.encode("utf-8", "surrogatepass"), salt=salt, n=cost, r=block, p=lanes, maxmem=_MEMORY
    )
