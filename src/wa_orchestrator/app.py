"""Assembles the rooms of a server; the order of start and stop."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from wa_orchestrator.alerts.follower import AlertFollower
from wa_orchestrator.alerts.room import Alerts
from wa_orchestrator.alerts.sender import AlertSender
from wa_orchestrator.alerts.telegram import Telegram
from wa_orchestrator.background import Services
from wa_orchestrator.backups.room import BackupRoom
from wa_orchestrator.clock import Clock, SystemClock
from wa_orchestrator.dashboard.counting import SessionCounter
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.errors import SettingsError, StoreUnavailable
from wa_orchestrator.events.assembly import webhook_parts
from wa_orchestrator.events.keeper import JournalKeeper
from wa_orchestrator.events.live import LiveEvents
from wa_orchestrator.gateway.accept import Gateway
from wa_orchestrator.gateway.media import MediaStore
from wa_orchestrator.http.app import build_app
from wa_orchestrator.http.serving import bound_socket, serve, url_of
from wa_orchestrator.inbound.files import InboundFiles
from wa_orchestrator.inbound.retention import InboundRetention
from wa_orchestrator.installation import owned_data_folder, server_id, with_secrets, write_private
from wa_orchestrator.inventory.profiles import Profiles
from wa_orchestrator.inventory.watch import Inventory, InventoryWatch
from wa_orchestrator.metrics.exposition import Exposition
from wa_orchestrator.metrics.loop_lag import LoopLag
from wa_orchestrator.proxies.health import ProxyHealth
from wa_orchestrator.proxies.pool import ProxyPool
from wa_orchestrator.proxies.sources import configured_proxies
from wa_orchestrator.roles import ALL_ROLES, Roles, start_dispatching
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.runners.choice import chosen_runner
from wa_orchestrator.scheduler.jobs import scheduled_jobs
from wa_orchestrator.scheduler.loop import Scheduler
from wa_orchestrator.sessions.lead_loops import LeadLoops
from wa_orchestrator.sessions.leadership import Leadership
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.sessions.reconciler import Reconciler
from wa_orchestrator.sessions.requests import RequestListener
from wa_orchestrator.settings import Settings
from wa_orchestrator.simulation import SimulatedWorld, Simulation
from wa_orchestrator.store import Store
from wa_orchestrator.store.embedded import EmbeddedStore
from wa_orchestrator.store.version import check_version
from wa_orchestrator.suppression.inbound import OptWordListener
from wa_orchestrator.watchdog.loop import Watchdog
from wa_orchestrator.which_store import store_rules
from wa_orchestrator.worker_api.claims import Claims
from wa_orchestrator.worker_api.intake import Intake
from wa_orchestrator.worker_api.outcomes import Outcomes
from wa_orchestrator.worker_api.wake import Wake

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server that is ready, as told to whoever started it."""

    url: str
    settings: Settings
    redis_url: str
    new_api_key: str | None
    adopted_workers: int
    removed_half_made: int
    proxies: int
    world: SimulatedWorld | None
    rooms: Rooms
    leads: bool

    def ready_file(self) -> str:
        """What the ready file holds."""
        content: dict[str, object] = {"url": self.url, "apiKey": self.settings.api_key, "redisUrl": self.redis_url}
        if self.world:
            content["simulator"] = self.world.view()
        return json.dumps(content, indent=2) + "\n"


@contextlib.asynccontextmanager
async def running_server(
    settings: Settings,
    *,
    simulate: bool = False,
    simulator_proxies: int = 5,
    clock: Clock | None = None,
    roles: Roles = ALL_ROLES,
) -> AsyncIterator[Running]:
    """A whole server, or without the roles that run elsewhere; leaving the block stops everything it started."""
    clock = clock or SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(owned_data_folder(settings))
        secrets = with_secrets(settings, folder)
        settings = secrets.settings
        listening = stack.enter_context(bound_socket(settings.host, settings.port))
        settings = replace(settings, port=listening.getsockname()[1])
        services = Services()

        world: SimulatedWorld | None = None
        if simulate:
            simulation = Simulation(folder / "simulator", proxies=simulator_proxies)
            world = await simulation.start()
            stack.push_async_callback(simulation.stop)
            services.start("simulator", simulation)
            settings = world.settings(settings)

        redis_url = settings.redis_url
        if not redis_url:
            embedded = EmbeddedStore(folder / "store", "always" if settings.store_fsync == "always" else "everysec")
            redis_url = await embedded.start()
            stack.push_async_callback(embedded.stop)
            services.start("embedded_store", embedded)
        store = Store(redis_url, clock, store_rules(settings))
        stack.push_async_callback(store.close)
        # after the rooms that use them, before the store itself
        stack.push_async_callback(services.stop)
        await _check_store(store)
        yield await _open_rooms(
            stack, settings=settings, store=store, clock=clock, folder=folder, listening=listening,
            redis_url=redis_url, new_api_key=secrets.new_api_key, world=world, services=services, roles=roles,
        )  # fmt: skip
        log.info("stopping")


async def _check_store(store: Store) -> None:
    try:
        await check_version(store)
    except StoreUnavailable as error:
        raise SettingsError(
            "The store does not answer. Check REDIS_URL (host, port, password), or leave it out for the embedded store."
        ) from error


async def _open_rooms(
    stack: contextlib.AsyncExitStack,
    *,
    settings: Settings,
    store: Store,
    clock: Clock,
    folder: Path,
    listening: socket.socket,
    redis_url: str,
    new_api_key: str | None,
    world: SimulatedWorld | None,
    services: Services,
    roles: Roles,
) -> Running:
    url = url_of(settings.host, settings.port)
    runner = chosen_runner(settings, folder=folder, clock=clock)
    lifecycle = Lifecycle(
        store=store,
        runner=runner,
        settings=settings,
        clock=clock,
        webhook_url=f"{settings.worker_url or url}/api/webhook",
        maker=server_id(folder),
    )
    pool = ProxyPool(store=store, lifecycle=lifecycle, settings=settings, clock=clock)
    intake = Intake(
        store=store, lifecycle=lifecycle, pool=pool, clock=clock, webhook_secret=settings.webhook_secret,
        opt_words=OptWordListener(store=store, settings=settings),
    )  # fmt: skip
    live, wake = LiveEvents(store), Wake(store)
    planner = Planner(store=store, settings=settings, clock=clock)
    backups = BackupRoom(store=store, lifecycle=lifecycle, settings=settings, clock=clock)
    telegram, inventory = Telegram(settings), Inventory(store=store, settings=settings)
    hooks = webhook_parts(store=store, live=live, settings=settings, clock=clock, owner=lifecycle.maker)
    stack.push_async_callback(hooks.sender.close)
    rooms = Rooms(
        webhooks=hooks.webhooks,
        alerts=Alerts(store=store, settings=settings, telegram=telegram), inventory=inventory,
        profiles=Profiles(store=store, lifecycle=lifecycle),
        settings=settings, clock=clock, store=store, lifecycle=lifecycle, pool=pool, live=live, intake=intake,
        claims=Claims(store=store, wake=wake), outcomes=Outcomes(store),
        gateway=Gateway(store=store, settings=settings, clock=clock), planner=planner, backups=backups,
        media=MediaStore(folder / "media", max_bytes=settings.max_media_bytes),
        inbound_files=InboundFiles(
            settings.inbound_media_path, max_bytes=settings.inbound_media_max_bytes,
            total_bytes=settings.inbound_media_total_bytes, keep_days=settings.inbound_media_keep_days,
        ),
        metrics=Exposition(
            store, role=",".join(sorted(roles)), claims_waiting=lambda: wake.waiting,
            leads=lambda: lifecycle.leads(),  # noqa: PLW0108 - set below, when the leadership exists
        ),
    )  # fmt: skip
    reconciler = Reconciler(
        store=store, runner=runner, lifecycle=lifecycle, media=rooms.media, settings=settings, clock=clock
    )

    follower = AlertFollower(store=store, settings=settings, clock=clock)
    lead = LeadLoops(
        {
            "inventory": InventoryWatch(inventory, store),
            "alert_sender": AlertSender(store=store, settings=settings, telegram=telegram, wake=follower.wake),
            "alerts": follower,
            "reconciler": reconciler,
            "requests": RequestListener(store=store, lifecycle=lifecycle),
            "watchdog": Watchdog(store=store, runner=runner, lifecycle=lifecycle, settings=settings, clock=clock),
            "proxy_health": ProxyHealth(store=store, pool=pool, settings=settings, clock=clock),
            "session_counter": SessionCounter(store),
            "webhooks": hooks.delivery,
            "journal_keeper": JournalKeeper(store=store, settings=settings, clock=clock),
            "backups": backups,
            "scheduler": Scheduler(store=store, jobs=scheduled_jobs(settings, backups), clock=clock),
        },
        runner=runner,
        lifecycle=lifecycle,
        recover=backups.recover,
    )
    leadership = Leadership(store=store, owner=lifecycle.maker, on_gain=lead.begin, on_loss=lead.end)
    lifecycle.leads = leadership.leads
    for address in configured_proxies(settings):
        await pool.add(address)

    streams, loops = Services(), Services()
    streams.start("live_events", live)
    streams.start("wake", wake)
    stack.push_async_callback(streams.stop)
    # before anybody is served: what a dead predecessor left half-made must not be mistaken for what is made now
    await leadership.try_once()
    lead.before_serving = False
    stack.push_async_callback(leadership.close)  # should the next line fail; in the usual order it is closed below
    http = await serve(build_app(rooms, accepts="gateway" in roles), listening)
    stack.push_async_callback(http.end)
    # first told to end: open streams would keep the HTTP side waiting
    stack.callback(live.close)
    stack.callback(wake.close)
    stack.push_async_callback(intake.close)

    async def close_runner() -> None:
        # another orchestrator takes the workers over; the last one stops them, unless they live on by themselves
        await runner.close(stop_workers=not runner.outlives_server and leadership.others == 0)

    # workers end while the HTTP side still takes their last events
    stack.push_async_callback(close_runner)
    stack.push_async_callback(leadership.close)
    loops.start("leadership", leadership)
    loops.start("inbound_retention", InboundRetention(store=store, files=rooms.inbound_files))
    loops.start("loop_lag", LoopLag())
    if "dispatcher" in roles:
        start_dispatching(loops, store=store, planner=planner, settings=settings, clock=clock)
    stack.push_async_callback(loops.stop)

    server_file = folder / "server.json"
    places = {"url": url, "simulator": world.url} if world else {"url": url}
    write_private(server_file, json.dumps(places) + "\n")
    stack.callback(server_file.unlink, missing_ok=True)
    return Running(
        url=url, settings=settings, redis_url=redis_url, new_api_key=new_api_key, adopted_workers=lead.adopted,
        removed_half_made=lead.removed, proxies=await store.proxies.count(), world=world, rooms=rooms,
        leads=leadership.leads(),
    )  # fmt: skip
