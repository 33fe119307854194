"""The rooms of a running server, as the HTTP side and the app see them."""

from __future__ import annotations

from dataclasses import dataclass

from wa_orchestrator.alerts.room import Alerts
from wa_orchestrator.backups.room import BackupRoom
from wa_orchestrator.clock import Clock
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.events.live import LiveEvents
from wa_orchestrator.events.webhooks import Webhooks
from wa_orchestrator.gateway.accept import Gateway
from wa_orchestrator.gateway.media import MediaStore
from wa_orchestrator.inbound.files import InboundFiles
from wa_orchestrator.inventory.profiles import Profiles
from wa_orchestrator.inventory.watch import Inventory
from wa_orchestrator.metrics.exposition import Exposition
from wa_orchestrator.proxies.pool import ProxyPool
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.worker_api.claims import Claims
from wa_orchestrator.worker_api.intake import Intake
from wa_orchestrator.worker_api.outcomes import Outcomes


@dataclass(frozen=True, kw_only=True)
class GatewayRooms:
    """What a gateway alone needs: the accepting side."""

    settings: Settings
    clock: Clock
    store: Store
    gateway: Gateway
    media: MediaStore
    metrics: Exposition


@dataclass(frozen=True, kw_only=True)
class Rooms(GatewayRooms):
    lifecycle: Lifecycle
    pool: ProxyPool
    live: LiveEvents
    webhooks: Webhooks
    intake: Intake
    claims: Claims
    outcomes: Outcomes
    inbound_files: InboundFiles
    planner: Planner
    alerts: Alerts
    inventory: Inventory
    profiles: Profiles
    backups: BackupRoom
