"""The roles of a server, and how gateway and dispatcher run alone: only the store is shared, so any number may run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Literal, get_args

import structlog

from wa_orchestrator.background import Services, wait_or_stop
from wa_orchestrator.clock import Clock, SystemClock
from wa_orchestrator.dispatcher.housekeeping import MessageHousekeeping
from wa_orchestrator.dispatcher.loop import Dispatcher
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.dispatcher.router import Router
from wa_orchestrator.errors import SettingsError, StoreUnavailable
from wa_orchestrator.gateway.accept import Gateway
from wa_orchestrator.gateway.media import MediaStore, NoMediaStore
from wa_orchestrator.http.app import build_gateway_app
from wa_orchestrator.http.numbers_only import build_numbers_app
from wa_orchestrator.http.serving import bound_socket, serve, url_of
from wa_orchestrator.metrics.exposition import Exposition
from wa_orchestrator.metrics.loop_lag import LoopLag
from wa_orchestrator.rooms import GatewayRooms
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.version import check_version
from wa_orchestrator.which_store import store_rules, with_store_of

log = structlog.get_logger()

Role = Literal["orchestrator", "gateway", "dispatcher"]
Roles = frozenset[Role]
ALL_ROLES: Roles = frozenset(get_args(Role))

_TRY_STORE_EVERY_S = 2.0


def read_roles(text: str) -> Roles:
    """`orchestrator,gateway` as `up` takes it; the orchestrator is what `up` is about."""
    words = {word.strip().lower() for word in text.split(",") if word.strip()}
    if unknown := words - ALL_ROLES:
        raise SettingsError(f"There is no role {min(unknown)}; the roles are {', '.join(get_args(Role))}.")
    if "orchestrator" not in words:
        raise SettingsError(
            "`up` always runs the orchestrator. For the others alone: `wa-orchestrator gateway`, `… dispatcher`."
        )
    return frozenset(role for role in get_args(Role) if role in words)


def start_dispatching(services: Services, *, store: Store, planner: Planner, settings: Settings, clock: Clock) -> None:
    """The dispatcher's loops; all their state is in the store."""
    router = Router(store=store, settings=settings, clock=clock)
    dispatcher = Dispatcher(store=store, planner=planner, settings=settings, clock=clock, jobs_due=router.jobs_due)
    services.start("dispatcher", dispatcher)
    services.start("router", router)
    services.start("message_housekeeping", MessageHousekeeping(store=store, settings=settings, clock=clock))


# alone -----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class RunningRole:
    """A gateway, or a dispatcher; that one has a url only with METRICS_PORT."""

    settings: Settings
    url: str | None
    store_answers: bool

    def ready_file(self) -> str:
        found = {"redisUrl": self.settings.redis_url}
        if self.url is not None:
            found = {"url": self.url, "apiKey": self.settings.api_key, **found}
        return json.dumps(found, indent=2) + "\n"


@contextlib.asynccontextmanager
async def running_gateway(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[RunningRole]:
    """Only the accepting side: send, bulk, messages, health."""
    if not settings.api_key:
        raise SettingsError(
            "A gateway needs the API key of its installation. Set API_KEY, or point --data-dir to the folder of `up`."
        )
    clock = clock or SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        settings = with_store_of(settings)
        listening = stack.enter_context(bound_socket(settings.host, settings.port))
        settings = replace(settings, port=listening.getsockname()[1])
        store, answers = await _open_store(stack, settings, clock)
        rooms = GatewayRooms(
            settings=settings, clock=clock, store=store, media=_shared_media(settings),
            gateway=Gateway(store=store, settings=settings, clock=clock), metrics=Exposition(store, role="gateway"),
        )  # fmt: skip
        http = await serve(build_gateway_app(rooms), listening)
        stack.push_async_callback(http.end)
        loops = Services()
        loops.start("loop_lag", LoopLag())
        stack.push_async_callback(loops.stop)
        yield RunningRole(settings=settings, url=url_of(settings.host, settings.port), store_answers=answers)
        log.info("stopping")


@contextlib.asynccontextmanager
async def running_dispatcher(settings: Settings, *, clock: Clock | None = None) -> AsyncIterator[RunningRole]:
    """Only the dispatcher: pacing, routing and what time alone brings about."""
    clock = clock or SystemClock()
    async with contextlib.AsyncExitStack() as stack:
        settings = with_store_of(settings)
        listening = _numbers_socket(stack, settings)
        store, answers = await _open_store(stack, settings, clock)
        url = await _serve_numbers(stack, settings, store, listening) if listening else None
        loops = Services()
        loops.start("loop_lag", LoopLag())
        planner = Planner(store=store, settings=settings, clock=clock)
        start_dispatching(loops, store=store, planner=planner, settings=settings, clock=clock)
        stack.push_async_callback(loops.stop)
        yield RunningRole(settings=settings, url=url, store_answers=answers)
        log.info("stopping")


def _numbers_socket(stack: contextlib.AsyncExitStack, settings: Settings) -> socket.socket | None:
    """A dispatcher serves nobody; with METRICS_PORT it can at least be watched."""
    if not settings.metrics_port:
        return None
    return stack.enter_context(bound_socket(settings.host, settings.metrics_port, setting="METRICS_PORT"))


async def _serve_numbers(
    stack: contextlib.AsyncExitStack, settings: Settings, store: Store, listening: socket.socket
) -> str:
    metrics = Exposition(store, role="dispatcher")
    http = await serve(build_numbers_app(settings, store, metrics), listening)
    stack.push_async_callback(http.end)
    return url_of(settings.host, settings.metrics_port)


def _shared_media(settings: Settings) -> MediaStore:
    """Workers fetch uploads from the orchestrator, which looks in its data folder: without that folder, no uploads."""
    if not settings.data_path("server-id").is_file():
        return NoMediaStore()
    return MediaStore(settings.data_path("media"), max_bytes=settings.max_media_bytes)


async def _open_store(stack: contextlib.AsyncExitStack, settings: Settings, clock: Clock) -> tuple[Store, bool]:
    """The store, and whether it answers. One that is still away is no reason to end: machines start in any order."""
    store = Store(settings.redis_url, clock, store_rules(settings))
    stack.push_async_callback(store.close)
    try:
        await check_version(store)
    except StoreUnavailable:
        services = Services()
        services.start("store_watch", _StoreWatch(store))
        stack.push_async_callback(services.stop)
        return store, False
    return store, True


class _StoreWatch:
    """Says when a store that was away at the start is there, or is too old."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def run(self, stop: asyncio.Event) -> None:
        log.warning("store_not_there_yet")
        while not await wait_or_stop(stop, _TRY_STORE_EVERY_S):
            try:
                await check_version(self._store)
            except StoreUnavailable:
                continue
            except SettingsError as error:
                log.error("store_too_old", error=str(error))
            else:
                log.info("store_is_there")
            return
