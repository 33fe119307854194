"""`wa-orchestrator up`: runs the server until it is told to stop."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Annotated

import typer
import uvloop

from wa_orchestrator.app import Running, running_server
from wa_orchestrator.cli.options import options_of
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.file_handles import ENOUGH, WHAT_TO_DO, most_allowed, raise_limit
from wa_orchestrator.garbage import calm_collector
from wa_orchestrator.installation import write_private
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.proxies.sources import HOW_TO_ADD
from wa_orchestrator.roles import Roles, read_roles
from wa_orchestrator.settings import Settings, load_settings


def up(
    ctx: typer.Context,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="With a simulated WhatsApp and its own proxies: no phone needed.")
    ] = False,
    host: Annotated[str | None, typer.Option(help="Address to listen on. Else ORCH_HOST, else 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port; 0 takes a free one. Else ORCH_PORT, else 3001.")
    ] = None,
    data_dir: Annotated[str | None, typer.Option(help="Data folder. Else DATA_DIR, else ./data.")] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="Written when ready: JSON with url, apiKey, redisUrl, simulator.")
    ] = None,
    roles: Annotated[
        str, typer.Option(help="Which roles run here; leave out what runs elsewhere, as `gateway` or `dispatcher`.")
    ] = "orchestrator,gateway,dispatcher",
) -> None:
    """Run the server: control plane, embedded store (without REDIS_URL) and local workers. Ctrl-C stops all."""
    options = options_of(ctx)
    wanted = read_roles(roles)
    environ = options.environ()
    settings = load_settings(
        environ, host=host, port=port, data_dir=data_dir or options.data_dir, api_key=options.api_key
    )
    configure_logs(level=settings.log_level, as_json=settings.log_format == "json")
    if ready_file:
        ready_file.unlink(missing_ok=True)
    given = environ.get("SIMULATOR_PROXIES", "").strip() or "5"
    if not given.isascii() or not given.isdigit() or int(given) > 500:
        raise SettingsError(f"SIMULATOR_PROXIES must be a whole number up to 500, not {given!r}.")
    proxies = int(given)
    raise_limit()
    uvloop.run(_serve(settings, simulate=simulate, simulator_proxies=proxies, ready_file=ready_file, roles=wanted))


async def _serve(
    settings: Settings, *, simulate: bool, simulator_proxies: int, ready_file: Path | None, roles: Roles
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with running_server(settings, simulate=simulate, simulator_proxies=simulator_proxies, roles=roles) as server:
        calm_collector()
        _tell(server)
        if ready_file:
            write_private(ready_file, server.ready_file())
        await stop.wait()
        if ready_file:
            ready_file.unlink(missing_ok=True)


def _tell(server: Running) -> None:
    say = typer.echo
    say(f"\n  WhatsApp Orchestrator is ready at {server.url}   (API: {server.url}/docs)")
    if server.new_api_key:
        say(f"  API key, shown this once: {server.new_api_key}")
        say(f"  It is kept in {server.settings.data_path('secrets.json')}")
    if server.world:
        say(f"  Simulated WhatsApp at {server.world.url} with {len(server.world.proxies)} proxies")
    if not server.leads:
        say("  Another orchestrator leads; this one serves and takes over when that one dies")
    if server.adopted_workers:
        say(f"  {server.adopted_workers} running workers were found and taken over")
    if server.removed_half_made:
        say(f"  {server.removed_half_made} half-made sessions of the last run were removed")
    if not server.proxies:
        say(f"  There are no proxies yet, and without one no session can be made. {HOW_TO_ADD}")
    if (allowed := most_allowed()) is not None and allowed < ENOUGH:
        say(f"  This user may open only {allowed} files at once: enough for some sessions. {WHAT_TO_DO}")
    say("  Ctrl-C stops it.\n")
