"""`wa-orchestrator gateway`: only the side that accepts messages, as often as needed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wa_orchestrator.cli.foreground import run_role
from wa_orchestrator.cli.options import options_of
from wa_orchestrator.roles import RunningRole, running_gateway


def gateway(
    ctx: typer.Context,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Else ORCH_HOST, else 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one. Else ORCH_PORT, else 3001.")
    ] = None,
    data_dir: Annotated[
        str | None, typer.Option(help="The data folder of `up`: its store, its API key, a place for uploads.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Written when ready: JSON with url, apiKey, redisUrl.")
    ] = None,
) -> None:
    """Accept messages only: send, bulk, messages, health. Any number of gateways may run beside `up`.

    It needs the store (REDIS_URL, or --data-dir of a running `up`) and the API key (API_KEY, or that folder's). While
    the store is away it answers 503. Uploads need the data folder, because workers fetch them from there.

    Example: wa-orchestrator gateway --port 3002 --data-dir ./data
    """
    run_role(
        options_of(ctx), running_gateway, tell=_tell, data_dir=data_dir, ready_file=ready_file, host=host, port=port
    )


def _tell(running: RunningRole) -> None:
    typer.echo(f"\n  A gateway is ready at {running.url}   (API: {running.url}/docs)")
