"""What a check has found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """`ok` is None where there is nothing to judge (not used, not set up yet)."""

    name: str
    ok: bool | None
    text: str
    fix: str = ""  # one sentence, for what is not ok


def good(name: str, text: str) -> Finding:
    return Finding(name, True, text)


def bad(name: str, text: str, fix: str) -> Finding:
    return Finding(name, False, text, fix)


def skipped(name: str, text: str) -> Finding:
    return Finding(name, None, text)
