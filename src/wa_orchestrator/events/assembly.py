"""Puts the webhook parts together."""

from __future__ import annotations

from dataclasses import dataclass

from wa_orchestrator.clock import Clock
from wa_orchestrator.events.courier import Round
from wa_orchestrator.events.delivery import Delivery
from wa_orchestrator.events.facts import SessionFacts
from wa_orchestrator.events.live import LiveEvents
from wa_orchestrator.events.sender import WebhookSender
from wa_orchestrator.events.targets import Guard
from wa_orchestrator.events.webhooks import Webhooks
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store

_MS_DAY = 24 * 3600 * 1000


@dataclass(frozen=True)
class WebhookParts:
    webhooks: Webhooks
    delivery: Delivery
    sender: WebhookSender


def webhook_parts(*, store: Store, live: LiveEvents, settings: Settings, clock: Clock, owner: str) -> WebhookParts:
    """`owner`: who holds the lead when this orchestrator does; only then what it delivered counts."""
    guard = Guard.from_setting(settings.webhook_allow_private)
    sender = WebhookSender(guard, timeout_ms=settings.webhook_timeout_ms)
    facts = SessionFacts(store)
    shared = Round(
        store=store, live=live, sender=sender, facts=facts, clock=clock, owner=owner,
        retry_ms=settings.webhook_retry_days * _MS_DAY, at_once=settings.webhook_concurrency,
    )  # fmt: skip
    delivery = Delivery(shared)
    webhooks = Webhooks(store=store, guard=guard, sender=sender, facts=facts, clock=clock)
    webhooks.changed = delivery.poke
    return WebhookParts(webhooks, delivery, sender)
