"""The text that Prometheus reads, made at each scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CONTENT_TYPE_LATEST, ProcessCollector, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.metrics.cached import CachedNumbers
from wa_orchestrator.metrics.families import of_process, of_store
from wa_orchestrator.store import Store
from wa_orchestrator.store.numbers import StoreNumbers

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Exposition:
    """`leads` and `claims_waiting` are asked only where this process has a say in them."""

    def __init__(
        self,
        store: Store,
        *,
        role: str,
        leads: Callable[[], bool] | None = None,
        claims_waiting: Callable[[], int] | None = None,
    ) -> None:
        self.numbers = CachedNumbers(store)
        self._role = role
        self._leads = leads
        self._claims_waiting = claims_waiting
        self._process = ProcessCollector(registry=None)

    async def text(self) -> bytes:
        """A store that is away is a number too (`wa_store_up 0`), not an error."""
        try:
            numbers = await self.numbers.get()
        except StoreUnavailable:
            numbers = None
        return generate_latest(_Scrape(self, numbers))

    def families(self, numbers: StoreNumbers | None) -> Iterator[Metric]:
        yield from of_process(
            role=self._role,
            leads=self._leads() if self._leads else None,
            claims_waiting=self._claims_waiting() if self._claims_waiting else None,
        )
        yield from of_store(numbers)
        yield from self._process.collect()


class _Scrape(Collector):
    def __init__(self, exposition: Exposition, numbers: StoreNumbers | None) -> None:
        self._exposition = exposition
        self._numbers = numbers

    def collect(self) -> Iterator[Metric]:
        return self._exposition.families(self._numbers)
