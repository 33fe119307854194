"""Follows the engine's container events for ever: a broken stream is taken up again where it ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import structlog
from aiodocker import Docker
from aiodocker.events import DockerEvents
from aiodocker.exceptions import DockerError

from wa_orchestrator.runners.docker_container import ContainerEvent, container_event

log = structlog.get_logger()

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_CONNECTING_S, _CONNECTING_TURNS = 1.0, 100
# The engine's clock may differ from ours, and replayed events are recognised: rather too far back than too late.
_OVERLAP_NS = 5_000_000_000


async def follow(
    docker: Docker,
    *,
    filters: Mapping[str, list[str]],
    since_ns: int,
    connected: Callable[[], Awaitable[None]],
) -> AsyncIterator[ContainerEvent]:
    """Starts and deaths of containers. `connected` is called after each (re)connect, when events are already kept."""
    since_ns -= _OVERLAP_NS
    pause_s = _FIRST_PAUSE_S
    wanted = json.dumps({**filters, "type": ["container"], "event": ["start", "die"]})
    while True:
        # one per connection: aiodocker's own cannot be started again
        events: Any = DockerEvents(docker)  # type: ignore[no-untyped-call]
        try:
            heard = events.subscribe(filters=wanted, since=_moment(since_ns))
            await connected()
            pause_s = _FIRST_PAUSE_S
            while (told := await heard.get()) is not None:
                event = container_event(told)
                since_ns = max(since_ns, event.at_ns + 1)
                yield event
        except (DockerError, aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("docker_events_lost", error=str(error) or type(error).__name__)
        finally:
            await _end(events)
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


async def _end(events: Any) -> None:
    # cut off while it is being made, a connection would leave its socket behind
    for _ in range(_CONNECTING_TURNS):
        if events.task is None or events.task.done() or events.json_stream is not None:
            break
        await asyncio.sleep(_CONNECTING_S / _CONNECTING_TURNS)
    with contextlib.suppress(DockerError, aiohttp.ClientError, OSError):
        await events.stop()


def _moment(ns: int) -> str:
    return f"{ns // 1_000_000_000}.{ns % 1_000_000_000:09d}"
