"""`wa-orchestrator docker-filter`: stands between the server and the Docker engine."""

from __future__ import annotations

import asyncio
from pathlib import PurePosixPath
from typing import Annotated

import typer

from wa_orchestrator.cli.foreground import until_told
from wa_orchestrator.cli.options import options_of
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.runners.docker_filter import DockerFilter
from wa_orchestrator.runners.docker_filter_rules import FilterRules
from wa_orchestrator.settings import Settings, load_settings


def docker_filter(
    ctx: typer.Context,
    listen: Annotated[str, typer.Option(help="Where the server finds the filter: unix:///path, or tcp://host:port.")],
    engine: Annotated[str, typer.Option(help="The Docker engine behind it.")] = "unix:///var/run/docker.sock",
) -> None:
    """Allow on a Docker engine only what workers need: containers wa_session_…, of the worker image, on the workers'
    network, with their own folder and no rights. It reads WORKER_IMAGE, DOCKER_NETWORK and HOST_SESSIONS_DIR.

    Example: wa-orchestrator docker-filter --listen unix:///run/docker-filter/docker.sock
    """
    settings = load_settings(options_of(ctx).environ())
    configure_logs(level=settings.log_level, as_json=settings.log_format == "json")
    asyncio.run(_serve(settings, listen=listen, engine=engine))


async def _serve(settings: Settings, *, listen: str, engine: str) -> None:
    if not settings.host_sessions_dir:
        raise SettingsError("The filter needs HOST_SESSIONS_DIR: the only folder that workers may be given.")
    rules = FilterRules(
        image=settings.worker_image,
        network=settings.docker_network,
        host_sessions_path=PurePosixPath(settings.host_sessions_dir),
    )
    service = DockerFilter(engine=engine, rules=rules)
    await service.open(listen)
    typer.echo(f"  The Docker filter listens at {listen}.")
    try:
        await until_told()
    finally:
        await service.close()
