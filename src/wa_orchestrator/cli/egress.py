"""`wa-orchestrator egress`: the relay between the workers' closed network and their proxies."""

from __future__ import annotations

from typing import Annotated

import typer
import uvloop

from wa_orchestrator.cli.foreground import until_told
from wa_orchestrator.cli.options import options_of
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.runners.egress import EgressRelay, PoolLookup
from wa_orchestrator.settings import Settings, load_settings
from wa_orchestrator.store import Store
from wa_orchestrator.which_store import store_rules, with_store_of


def egress(
    ctx: typer.Context,
    host: Annotated[str, typer.Option(help="Address to listen on: the one in the workers' network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 1080,
) -> None:
    """Lead each worker to its own proxy and nowhere else. It needs REDIS_URL and WEBHOOK_SECRET of the installation.

    Example: wa-orchestrator egress --host 172.29.0.4
    """
    options = options_of(ctx)
    settings = load_settings(options.environ(), data_dir=options.data_dir)
    configure_logs(level=settings.log_level, as_json=settings.log_format == "json")
    uvloop.run(_serve(settings, host=host, port=port))


async def _serve(settings: Settings, *, host: str, port: int) -> None:
    if not settings.webhook_secret:
        raise SettingsError("The relay needs the WEBHOOK_SECRET of its installation.")
    settings = with_store_of(settings)
    store = Store(settings.redis_url, SystemClock(), store_rules(settings))
    relay = EgressRelay(secret=settings.webhook_secret, find_proxy=PoolLookup(store))
    try:
        await relay.open(host, port)
    except OSError as error:
        raise SettingsError(f"Cannot listen on {host}:{port}: {error.strerror}.") from error
    typer.echo(f"  The egress relay listens on {host}:{port}.")
    try:
        await until_told()
    finally:
        await relay.close()
        await store.close()
