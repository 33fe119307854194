"""The only room that knows Redis: keys, scripts and typed methods around them."""

from __future__ import annotations

from dataclasses import dataclass

from wa_orchestrator.clock import Clock
from wa_orchestrator.store.alerts import AlertStore
from wa_orchestrator.store.api_keys import ApiKeyStore
from wa_orchestrator.store.audit import AuditStore
from wa_orchestrator.store.carrying import CarryingStore
from wa_orchestrator.store.commands import CommandStore
from wa_orchestrator.store.connection import Connection
from wa_orchestrator.store.conversations import ConversationStore
from wa_orchestrator.store.inventory import InventoryStore
from wa_orchestrator.store.jobs import JobStore
from wa_orchestrator.store.journal import Journal
from wa_orchestrator.store.lanes import LaneStore
from wa_orchestrator.store.leases import LeaseStore
from wa_orchestrator.store.locks import SessionLocks
from wa_orchestrator.store.messages import MessageStore, Stamp
from wa_orchestrator.store.moments import MomentStore
from wa_orchestrator.store.numbers import NumberStore
from wa_orchestrator.store.operations import OperationStore
from wa_orchestrator.store.outbox import OutboxStore
from wa_orchestrator.store.proxies import ProxyStore
from wa_orchestrator.store.rows import RowStore
from wa_orchestrator.store.sessions import SessionStore
from wa_orchestrator.store.stats import StatsStore
from wa_orchestrator.store.suppression import SuppressionStore
from wa_orchestrator.store.users import UserStore
from wa_orchestrator.store.webhooks import WebhookStore


@dataclass(frozen=True, kw_only=True)
class StoreRules:
    """The numbers that the scripts are told; the same in every process of an installation."""

    slots_per_proxy: int = 4
    sessions_per_phone: int = 4
    timezone: str = "UTC"
    message_keep_days: int = 30
    message_lease_ms: int = 120_000
    inbox_keep_days: int = 30
    inbound_media_keep_days: int = 30
    message_attempts: int = 3
    rate_per_second: int = 0
    rate_burst: int = 1
    flood_per_minute: int = 0
    webhook_dead_letters: int = 10_000
    recipient_cap_per_day: int = 0


class Store:
    """Everything the rooms may ask of the store."""

    def __init__(self, url: str, clock: Clock, rules: StoreRules | None = None) -> None:
        rules = rules or StoreRules()
        self.connection = Connection(url)
        stamp = Stamp(
            clock,
            timezone=rules.timezone,
            keep_days=rules.message_keep_days,
            inbox_keep_days=rules.inbox_keep_days,
        )
        self.sessions = SessionStore(
            self.connection,
            clock,
            slots_per_proxy=rules.slots_per_proxy,
            sessions_per_phone=rules.sessions_per_phone,
        )
        self.proxies = ProxyStore(self.connection, clock, slots_per_proxy=rules.slots_per_proxy)
        self.messages = MessageStore(
            self.connection,
            stamp,
            rate_per_second=rules.rate_per_second,
            rate_burst=rules.rate_burst,
            flood_per_minute=rules.flood_per_minute,
            recipient_cap=rules.recipient_cap_per_day,
        )
        self.lanes = LaneStore(self.connection, stamp, recipient_cap=rules.recipient_cap_per_day)
        self.outbox = OutboxStore(
            self.connection, stamp, lease_ms=rules.message_lease_ms, max_attempts=rules.message_attempts
        )
        self.conversations = ConversationStore(self.connection, stamp, media_keep_days=rules.inbound_media_keep_days)
        self.commands = CommandStore(self.connection, clock)
        self.journal = Journal(self.connection)
        self.locks = SessionLocks(self.connection, clock)
        self.leases = LeaseStore(self.connection, clock)
        self.moments = MomentStore(self.connection, clock)
        self.rows = RowStore(self.connection, clock)
        self.stats = StatsStore(self.connection, clock)
        self.numbers = NumberStore(self.connection, clock, slots_per_proxy=rules.slots_per_proxy)
        self.users = UserStore(self.connection, clock)
        self.webhooks = WebhookStore(
            self.connection, clock, most_dead=rules.webhook_dead_letters, most_waiting=rules.webhook_dead_letters
        )
        self.alerts = AlertStore(self.connection, clock)
        self.inventory = InventoryStore(self.connection, clock, slots_per_proxy=rules.slots_per_proxy)
        self.jobs = JobStore(self.connection, clock)
        self.operations = OperationStore(self.connection, clock)
        self.carrying = CarryingStore(
            self.connection,
            clock,
            slots_per_proxy=rules.slots_per_proxy,
            sessions_per_phone=rules.sessions_per_phone,
        )
        self.api_keys = ApiKeyStore(self.connection, clock)
        self.audit = AuditStore(self.connection)
        self.suppression = SuppressionStore(self.connection, stamp, recipient_cap=rules.recipient_cap_per_day)

    async def ping(self) -> None:
        """Raises StoreUnavailable when it is away."""
        await self.connection.call("PING")

    async def close(self) -> None:
        await self.connection.close()
