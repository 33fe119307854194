"""When work is due. Pure: days, time zones and clock changes are tested without waiting."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

_TIME = re.compile(r"^([01]?[0-9]|2[0-3]):([0-5][0-9])$")


def read_time(text: str) -> time | None:
    """`03:00` as a time of day; None when it is none."""
    found = _TIME.fullmatch(text.strip())
    return time(int(found[1]), int(found[2])) if found else None


class Schedule(Protocol):
    def next_due(self, after_ms: int) -> int:
        """The first due moment that is later than `after_ms`."""
        ...

    def text(self) -> str:
        """Says the same for the same schedule: a changed one is planned anew."""
        ...


@dataclass(frozen=True)
class Daily:
    """Once a day at a time of a time zone.

    On the day the clock skips that time it runs as much later (02:30 becomes 03:30); on the day the clock shows it
    twice it runs the first time.
    """

    at: time
    zone: str

    def next_due(self, after_ms: int) -> int:
        day = datetime.fromtimestamp(after_ms / 1000, ZoneInfo(self.zone)).date()
        while True:
            due = self._moment(day)
            if due > after_ms:
                return due
            day += timedelta(days=1)

    def _moment(self, day: date) -> int:
        local = datetime.combine(day, self.at, tzinfo=ZoneInfo(self.zone))
        return int(local.astimezone(UTC).timestamp() * 1000)

    def text(self) -> str:
        return f"daily {self.at:%H:%M} {self.zone}"


@dataclass(frozen=True)
class Every:
    """Again and again, so long after the last time."""

    seconds: int

    def next_due(self, after_ms: int) -> int:
        return after_ms + self.seconds * 1000

    def text(self) -> str:
        return f"every {self.seconds} s"
