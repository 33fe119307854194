"""How the receiver of a webhook does: is it away, since when, when is it tried again, what was told of it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from wa_orchestrator.events import retrying


@dataclass
class Receiver:
    failures: int  # in a row, whatever it was sent
    since: int  # 0: it takes what comes
    next_try: int = 0
    last_success: int = 0
    told: bool | None = None  # that it fails; not known after a start, and then the store knows

    @property
    def away(self) -> bool:
        return self.failures >= retrying.AWAY_AFTER

    def rests(self, now_ms: int) -> bool:
        """It is away, and not even a probe is due."""
        return self.away and retrying.still_waits(self.next_try, now_ms)

    def begin_anew(self) -> None:
        self.failures = self.since = self.next_try = 0

    def succeeded(self, now_ms: int) -> bool:
        """True when it must be told that it is back."""
        self.last_success = now_ms
        self.begin_anew()
        is_news = self.told is not False
        self.told = False
        return is_news

    def failed(self, now_ms: int, *, chance: Callable[[], float]) -> None:
        self.since = self.since or now_ms
        if self.rests(now_ms):
            return  # it was on its way when another found the same
        self.failures += 1
        pause_ms = retrying.receiver_pause_ms(self.failures, chance())
        self.next_try = now_ms + pause_ms if self.away else 0

    def worth_telling(self, now_ms: int) -> bool:
        """Once, when it has failed for so long that it is no restart."""
        is_news = self.told is not True and now_ms - self.since >= retrying.TELL_AFTER_MS
        self.told = is_news or self.told
        return is_news

    def fields(self) -> dict[str, str]:
        """As the store keeps it."""
        return {"failures": str(self.failures), "failingSince": str(self.since), "nextTry": str(self.next_try)}
