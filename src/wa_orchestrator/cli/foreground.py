"""Runs a role in the foreground: settings, logs, ready file, and an orderly end at Ctrl-C or SIGTERM."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import typer
import uvloop

from wa_orchestrator.cli.api import find_key
from wa_orchestrator.cli.options import Options
from wa_orchestrator.file_handles import raise_limit
from wa_orchestrator.garbage import calm_collector
from wa_orchestrator.installation import write_private
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.settings import Settings, load_settings

if TYPE_CHECKING:  # it brings the HTTP side along, which the relay of the workers' network does without
    from wa_orchestrator.roles import RunningRole

    Opened = Callable[[Settings], AbstractAsyncContextManager[RunningRole]]


def run_role(
    options: Options,
    opened: Opened,
    *,
    tell: Callable[[RunningRole], None],
    data_dir: str | None,
    ready_file: Path | None,
    **given: Any,
) -> None:
    options.data_dir = data_dir or options.data_dir
    settings = load_settings(options.environ(), data_dir=options.data_dir, api_key=find_key(options) or None, **given)
    configure_logs(level=settings.log_level, as_json=settings.log_format == "json")
    if ready_file:
        ready_file.unlink(missing_ok=True)
    raise_limit()
    uvloop.run(_until_told(opened(settings), tell=tell, ready_file=ready_file))


async def _until_told(
    role: AbstractAsyncContextManager[RunningRole], *, tell: Callable[[RunningRole], None], ready_file: Path | None
) -> None:
    stop = _told_to_stop()
    async with role as running:
        calm_collector()
        tell(running)
        if not running.store_answers:
            typer.echo(f"  The store at {_place(running.settings.redis_url)} does not answer yet; it is asked again.")
        typer.echo("  Ctrl-C stops it.\n")
        if ready_file:
            write_private(ready_file, running.ready_file())
        await stop.wait()
        if ready_file:
            ready_file.unlink(missing_ok=True)


async def until_told() -> None:
    """Returns at Ctrl-C or SIGTERM."""
    await _told_to_stop().wait()


def _told_to_stop() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _place(url: str) -> str:
    """host:port, never the password."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 6379}" if parts.hostname else parts.path
