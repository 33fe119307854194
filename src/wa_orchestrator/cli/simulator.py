"""`wa-orchestrator simulator`: the simulated WhatsApp alone, for trying other programs against it."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Annotated

import typer

from wa_orchestrator.cli.options import JsonFlag, options_of
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.simulation import SimulatedWorld, Simulation


def simulator(
    ctx: typer.Context,
    proxies: Annotated[
        int, typer.Option(min=0, max=500, envvar="SIMULATOR_PROXIES", help="SOCKS5 proxies to offer.")
    ] = 5,
    state: Annotated[Path | None, typer.Option(help="Where its accounts are kept. Else <data-dir>/simulator.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Run the simulated WhatsApp alone until Ctrl-C; accounts, inboxes and ports are kept in its folder."""
    options = options_of(ctx)
    configure_logs()
    asyncio.run(_run(Simulation(state or options.data_path() / "simulator", proxies=proxies), options.as_json))


async def _run(simulation: Simulation, as_json: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    world = await simulation.start()
    try:
        _tell(world, as_json)
        await simulation.run(stop)
    finally:
        await simulation.stop()


def _tell(world: SimulatedWorld, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({**world.view(), "websocketUrl": world.websocket_url, "caFile": world.ca_file}))
        return
    typer.echo(f"Simulated WhatsApp: {world.url}  (GET / tells what can be called)")
    typer.echo(f"WebSocket: {world.websocket_url}")
    for proxy in world.proxies:
        typer.echo(f"Proxy: {proxy}")
