"""What this process counts about itself. One set per process, plain numbers: counting must cost next to nothing.

Nothing here knows Prometheus, so that any room may count without a slow import; `exposition.py` turns it into text.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter


class Times:
    """A histogram of durations in seconds. Only the event loop's thread writes, so it needs no lock."""

    __slots__ = ("bounds", "counts", "total_s")

    def __init__(self, *bounds_s: float) -> None:
        self.bounds = bounds_s
        self.counts = [0] * (len(bounds_s) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.total_s += seconds

    def add_all_ms(self, durations_ms: list[float]) -> None:
        """The same for many, in milliseconds."""
        bounds, counts = self.bounds, self.counts
        for duration_ms in durations_ms:
            counts[bisect_left(bounds, duration_ms / 1000)] += 1
        self.total_s += sum(durations_ms) / 1000


class Rounds:
    """How often each background service means to work, when it last ended a round, and how many rounds failed."""

    def __init__(self) -> None:
        self.every_s: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self.failures: Counter[str] = Counter()

    def begun(self, service: str, *, every_s: float) -> None:
        self.every_s[service] = every_s
        self._ended[service] = time.monotonic()
        self.failures[service] += 0  # a series that begins at 0 shows its first failure

    def ended(self, service: str, *, well: bool) -> None:
        self._ended[service] = time.monotonic()
        self.failures[service] += not well

    def over(self, service: str) -> None:
        """It was stopped on purpose: its silence means nothing."""
        self._ended.pop(service, None)
        self.every_s.pop(service, None)

    def ages_s(self) -> dict[str, float]:
        now = time.monotonic()
        return {service: now - ended for service, ended in self._ended.items()}


store_batches = Times(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
store_calls: Counter[str] = Counter(sent=0, failed=0)
dispatch_lateness = Times(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0)
loop_lag = Times(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
rounds = Rounds()
requests_by_class = [0] * 6  # by the first digit of the status; 0: the caller hung up before an answer
worker_events: Counter[str] = Counter()
