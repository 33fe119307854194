"""The end of a worker's log as a page may show it: no whole phone numbers, nothing that looks like a secret."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MOST_BYTES = 64 * 1024
_SECRET_NAME = re.compile(r"secret|password|token|key|auth|creds|cookie|signature|noise", re.IGNORECASE)
_SECRET_TEXT = re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|\b[A-Za-z0-9+/_-]{40,}={0,2}")
_PHONE = re.compile(r"(?<![0-9A-Za-z])([0-9]{7,11})([0-9]{4})(?![0-9A-Za-z.])")
_STANDARD = frozenset({"time", "level", "event", "session_id", "pid"})


@dataclass(frozen=True)
class LogLine:
    at: str
    level: str
    event: str
    details: str


@dataclass(frozen=True)
class LogPart:
    lines: list[LogLine]
    position: int  # where the next read goes on


def read_log(file: Path, *, position: int | None) -> LogPart:
    """Lines from a position on, or the last ones; a log that was turned over is read from its start."""
    try:
        size = file.stat().st_size
        start = max(0, size - _MOST_BYTES) if position is None or position > size else position
        start = max(start, size - _MOST_BYTES)
        with file.open("rb") as log:
            log.seek(start)
            raw = log.read(_MOST_BYTES)
    except OSError:
        return LogPart([], 0)
    whole, _, rest = raw.rpartition(b"\n")
    cut = start > 0 and start != position  # begun in the middle of a line
    lines = whole.split(b"\n")[1 if cut else 0 :] if whole else []
    return LogPart([read_line(line.decode(errors="replace")) for line in lines], start + len(raw) - len(rest))


def read_line(text: str) -> LogLine:
    """A JSON line of a worker; anything else (a stack trace) is shown as it is, cleaned."""
    try:
        record = json.loads(text)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return LogLine("", "info", "", clean(text)[:500])
    details = " ".join(f"{name}={_shown(name, value)}" for name, value in record.items() if name not in _STANDARD)
    return LogLine(
        str(record.get("time", "")), str(record.get("level", "info")), str(record.get("event", "")), details[:500]
    )


def _shown(name: str, value: Any) -> str:
    if _SECRET_NAME.search(name):
        return "…"
    return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def clean(text: str) -> str:
    return _PHONE.sub(lambda found: "…" + found[2], _SECRET_TEXT.sub("…", text))
