"""Times as people type them, and as they read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from wa_orchestrator.cli.errors import CliError

_FROM_NOW = re.compile(r"^\+(\d{1,6})\s*(s|m|h|d)$", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
HELP = "2030-01-31T09:00 (this computer's zone), with a zone 2030-01-31T09:00+02:00, or from now +30m, +2h, +1d"


def read_moment(option: str, text: str, *, relative: bool = True) -> str:
    """What somebody typed as an ISO time with a zone, which is what the API takes."""
    text = text.strip()
    if found := _FROM_NOW.match(text):
        if not relative:
            # a repeated command would mean another time, and so another message
            raise CliError("USAGE", f"{option} needs a fixed time here, such as 2030-01-31T09:00.", exit_code=2)
        moment = datetime.now(UTC) + timedelta(**{_UNITS[found[2]]: int(found[1])})
        return moment.isoformat(timespec="milliseconds")
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()  # without a zone: this computer's
    except (ValueError, OverflowError):
        raise CliError("USAGE", f"{option} is not a time. Write {HELP}.", exit_code=2) from None


def local(iso: str | None, *, with_ms: bool = False) -> str:
    """A time of the API in this computer's zone: 2030-01-31 09:00:00."""
    if not iso:
        return ""
    moment = datetime.fromisoformat(iso).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{moment.microsecond // 1000:03}" if with_ms else "")
