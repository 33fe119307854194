"""When a call is tried again, and after how long. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from wa_orchestrator_client.errors import ApiError


@dataclass(frozen=True)
class RetryPolicy:
    """`tries` in all. Where the server asks for a longer pause than `longest_wait_s`, its error is told at once."""

    tries: int = 5
    first_wait_s: float = 0.5
    longest_wait_s: float = 30.0

    def wait_s(self, attempt: int, error: Exception, *, repeatable: bool) -> float | None:
        """How long to wait after try number `attempt` (from 1) failed; None: give up and tell."""
        if attempt >= self.tries:
            return None
        backoff: float = min(self.first_wait_s * 2 ** (attempt - 1), self.longest_wait_s)
        wait = backoff * random.uniform(0.5, 1.0)  # noqa: S311 - spreads callers, no secret
        if not isinstance(error, ApiError):
            return wait if repeatable else None
        # with these two the server says that nothing was done; behind 502 and 504 it may have been
        if error.status in {429, 503} or (error.status in {502, 504} and repeatable):
            asked = error.retry_after_s
            if asked is None:
                return wait
            return asked if asked <= self.longest_wait_s else None
        return None


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 8 else None
