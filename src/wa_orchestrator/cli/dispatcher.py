"""`wa-orchestrator dispatcher`: only the side that paces messages, as often as needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wa_orchestrator.cli.foreground import run_role
from wa_orchestrator.cli.options import options_of
from wa_orchestrator.roles import RunningRole, running_dispatcher


def dispatcher(
    ctx: typer.Context,
    data_dir: Annotated[str | None, typer.Option(help="The data folder of `up`, to find its store.")] = None,
    ready_file: Annotated[Path | None, typer.Option(help="Written when it works: JSON with redisUrl.")] = None,
) -> None:
    """Pace and route messages only. Any number of dispatchers share the work; limits hold over all of them.

    It needs the store (REDIS_URL, or --data-dir of a running `up`) and the same pacing settings as the other
    processes (TIMEZONE, PACING_PRESET, BURST_…). While the store is away it keeps trying.

    Example: REDIS_URL=redis://:password@store:6379/0 wa-orchestrator dispatcher
    """
    run_role(options_of(ctx), running_dispatcher, tell=_tell, data_dir=data_dir, ready_file=ready_file)


def _tell(running: RunningRole) -> None:
    seen = f"   (metrics: {running.url}/metrics)" if running.url else ""
    typer.echo(f"\n  A dispatcher is at work.{seen}")
