"""Which runner the settings ask for."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path, PurePosixPath

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.runners.docker import DockerRunner
from wa_orchestrator.runners.docker_container import ContainerRules
from wa_orchestrator.runners.egress_pass import relayed_proxy_url
from wa_orchestrator.runners.port import Runner, WorkerSpec
from wa_orchestrator.runners.process import ProcessRunner
from wa_orchestrator.settings import Settings
from wa_orchestrator.worker_program import worker_program

_IMAGE_USER = "1000:1000"  # as worker/Dockerfile says


def chosen_runner(settings: Settings, *, folder: Path, clock: Clock) -> Runner:
    """The runner, not opened yet; `folder` is the data folder."""
    if settings.runner == "docker":
        return DockerRunner(
            docker_host=settings.docker_host,
            rules=container_rules(settings),
            sessions_path=settings.sessions_path,
            logs_path=folder / "logs",
        )
    program = worker_program(settings)
    return ProcessRunner(
        sessions_path=settings.sessions_path,
        run_path=settings.run_path,
        logs_path=folder / "logs",
        command=program.command,
        base_env=program.env,
        log_bytes=settings.worker_log_bytes,
        clock=clock,
    )


def container_rules(settings: Settings) -> ContainerRules:
    def proxy_url(spec: WorkerSpec) -> str:
        if not settings.egress_relay:
            return spec.proxy_url
        return relayed_proxy_url(
            settings.egress_relay,
            secret=settings.webhook_secret,
            session_id=spec.session_id,
            proxy_id=spec.proxy_id,
        )

    if not settings.worker_url:
        raise SettingsError(
            "RUNNER=docker needs WORKER_URL: how containers reach this server, for example http://172.28.0.3:3000."
        )
    return ContainerRules(
        installation=installation_id(settings.webhook_secret),
        image=settings.worker_image,
        network=settings.docker_network,
        host_sessions_path=PurePosixPath(settings.host_sessions_dir or settings.sessions_path),
        # a server that is not root can only give folders to itself
        user=f"{os.geteuid()}:{os.getegid()}" if os.geteuid() != 0 else _IMAGE_USER,
        memory_mb=settings.worker_memory_mb,
        cpus=settings.worker_cpus,
        pids=settings.worker_pids,
        log_bytes=settings.worker_log_bytes,
        proxy_url=proxy_url,
    )


def installation_id(webhook_secret: str) -> str:
    """The same for all servers of an installation: they share the secret that workers' secrets are made from."""
    return hmac.new(webhook_secret.encode(), b"installation:", hashlib.sha256).hexdigest()[:16]
