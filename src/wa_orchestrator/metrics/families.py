"""Every metric with its name, type and meaning. Names are a contract: dashboards and alert rules are made of them."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from wa_orchestrator import __version__
from wa_orchestrator.metrics import instruments
from wa_orchestrator.metrics.instruments import Times
from wa_orchestrator.model.proxy import ProxyStatus
from wa_orchestrator.model.session import Status
from wa_orchestrator.store.numbers import StoreNumbers

_STATUS_CLASSES = ("none", "1xx", "2xx", "3xx", "4xx", "5xx")


def of_process(*, role: str, leads: bool | None, claims_waiting: int | None) -> Iterator[Metric]:
    """What this process knows about itself: differs from process to process, so it may be summed."""
    build = GaugeMetricFamily(
        "wa_build_info", "Version of this process; always 1.", labels=("version", "python", "role")
    )
    build.add_metric((__version__, platform.python_version(), role), 1)
    yield build
    if leads is not None:
        yield _gauge("wa_leader", "1 when this orchestrator leads.", leads)
    if claims_waiting is not None:
        yield _gauge("wa_claims_waiting", "Workers whose long poll waits at this process.", claims_waiting)
    yield _histogram("wa_store_batch_seconds", "Way to the store and back, for a batch of calls.",
                     instruments.store_batches)  # fmt: skip
    yield _counters("wa_store_calls", "Calls to the store.", "result", instruments.store_calls)
    yield _histogram("wa_dispatch_lateness_seconds", "How long after its due time a phone was served.",
                     instruments.dispatch_lateness)  # fmt: skip
    yield _histogram("wa_event_loop_lag_seconds", "How late the event loop comes.", instruments.loop_lag)
    yield _counters("wa_http_requests", "Answered requests by status.", "status",
                    dict(zip(_STATUS_CLASSES, instruments.requests_by_class, strict=True)))  # fmt: skip
    yield _counters("wa_worker_events", "Events taken from workers.", "type", instruments.worker_events)
    yield _gauges("wa_background_round_age_seconds", "Since a background service last ended a round.", "service",
                  instruments.rounds.ages_s())  # fmt: skip
    yield _gauges("wa_background_interval_seconds", "How often that service means to work.", "service",
                  instruments.rounds.every_s)  # fmt: skip
    yield _counters("wa_background_failures", "Rounds of a background service that failed.", "service",
                    instruments.rounds.failures)  # fmt: skip


def of_store(numbers: StoreNumbers | None) -> Iterator[Metric]:
    """What the store knows about the installation: every process says the same, so take the maximum, never the sum."""
    yield _gauge("wa_store_up", "1 when the store answers this process.", numbers is not None)
    if numbers is None:
        return
    states = {status.value: 0 for status in Status} | numbers.sessions
    yield _gauges("wa_sessions", "Sessions by state.", "state", states)
    yield _gauge("wa_sessions_waiting_for_proxy", "Sessions whose proxy failed and that wait for a free slot.",
                 numbers.sessions_waiting_for_proxy)  # fmt: skip
    yield _gauge("wa_workers_reporting", "Workers that pinged in the last three minutes.", numbers.workers_reporting)
    yield _gauge("wa_worker_memory_sum_bytes", "Memory of all reporting workers.", numbers.worker_memory_sum)
    yield _gauge("wa_worker_memory_max_bytes", "Memory of the largest of them.", numbers.worker_memory_max)
    yield from _of_messages(numbers)
    proxies = {status.value: 0 for status in ProxyStatus} | numbers.proxies
    yield _gauges("wa_proxies", "Proxies by state.", "state", proxies)
    yield _gauge("wa_proxy_slots_free", "Free places on healthy proxies.", numbers.free_slots)
    yield from _of_webhooks(numbers)
    yield _gauge("wa_journal_number", "Number of the newest event.", numbers.journal)
    yield _gauge("wa_leaders", "1 when some orchestrator leads.", numbers.leaders)
    yield _gauge("wa_orchestrators", "Orchestrators that live.", numbers.orchestrators)


def _of_messages(numbers: StoreNumbers) -> Iterator[Metric]:
    waiting = {
        "jobs": numbers.jobs,
        "lanes": numbers.lanes_waiting,
        "outbox": max(0, numbers.lanes_under_way - numbers.claimed),
        "claimed": numbers.claimed,
        "dead": numbers.dead,
    }
    yield _gauges("wa_queue_messages", "Messages by where they stand.", "queue", waiting)
    yield _gauge("wa_lanes_due", "Phones whose turn it is now.", numbers.lanes_due)
    yield _gauge("wa_lanes_oldest_due_seconds", "How long the longest of them has waited for a dispatcher.",
                 numbers.oldest_due_s)  # fmt: skip
    yield _gauge("wa_lanes_blocked", "Phones that WhatsApp itself holds back.", numbers.lanes_blocked)
    yield _gauge("wa_lanes_slowed", "Phones slowed down after failures.", numbers.lanes_slowed)
    for name in ("accepted", "sent", "expired", "cancelled"):
        yield CounterMetricFamily(f"wa_messages_{name}", f"Messages {name}.", value=numbers.totals.get(name, 0))
    yield _counters("wa_messages_failed", "Messages failed, by code.", "reason", numbers.failed)


def _of_webhooks(numbers: StoreNumbers) -> Iterator[Metric]:
    hooks = numbers.webhooks
    healthy = hooks["total"] - hooks["failing"] - hooks["disabled"]
    states = {"healthy": healthy, "failing": hooks["failing"], "disabled": hooks["disabled"]}
    yield _gauges("wa_webhooks", "Webhooks of client applications by state.", "state", states)
    yield _gauge("wa_webhook_events_waiting", "Events that wait aside for a receiver.", hooks["waiting"])
    yield _gauge("wa_webhook_dead_letters", "Events that were given up and are kept.", hooks["dead"])
    yield _gauge("wa_webhook_events_behind", "How far the slowest receiver is behind the journal.", hooks["behind"])
    ends = {end: numbers.totals.get(f"webhooks{end.capitalize()}", 0) for end in ("delivered", "failed", "dead")}
    yield _counters("wa_webhook_deliveries", "Deliveries to webhooks by how they ended.", "end", ends)


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=float(value))


def _gauges(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=(label,))
    for key, value in sorted(values.items()):
        family.add_metric((key,), value)
    return family


def _counters(name: str, about: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(name, about, labels=(label,))
    for key, value in sorted(values.items()):
        family.add_metric((key,), value)
    return family


def _histogram(name: str, about: str, times: Times) -> Metric:
    buckets, seen = [], 0
    for bound, count in zip((*map(str, times.bounds), "+Inf"), times.counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return HistogramMetricFamily(name, about, buckets=buckets, sum_value=times.total_s)
