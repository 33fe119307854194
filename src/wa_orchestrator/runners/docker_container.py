"""A worker as a container: what the engine is asked for, and what its answers mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from wa_orchestrator.runners.port import RunningWorker, WorkerSpec

NAME_PREFIX = "wa_session_"
SESSIONS_INSIDE = "/app/sessions"
_LABEL = "wa-orchestrator."
INSTALLATION = f"{_LABEL}installation"
_SESSION, _RUN_ORDER, _PROXY = f"{_LABEL}session", f"{_LABEL}run-order", f"{_LABEL}proxy"
_LOG_FILES = 2
# A worker writes nothing there but what libraries leave; media is kept in the session's folder.
_TMPFS = "rw,noexec,nosuid,nodev,size=32m,mode=1777"
_MOMENT = re.compile(r"^(?P<second>[0-9-]+T[0-9:]+)(?:\.(?P<fraction>[0-9]+))?(?:Z|\+00:00)$")


def _own_proxy_url(spec: WorkerSpec) -> str:
    return spec.proxy_url


@dataclass(frozen=True, kw_only=True)
class ContainerRules:
    """What all worker containers of an installation have in common."""

    installation: str
    image: str
    network: str
    host_sessions_path: PurePosixPath  # where the engine's machine has the session folders
    user: str  # uid:gid, the owner of the session folders
    memory_mb: int
    cpus: float
    pids: int
    log_bytes: int
    # where the worker finds its proxy: the proxy itself, or the relay that leads to it
    proxy_url: Callable[[WorkerSpec], str] = field(default=_own_proxy_url)


def name_of(session_id: str) -> str:
    return f"{NAME_PREFIX}{session_id}"


def container_config(spec: WorkerSpec, rules: ContainerRules) -> dict[str, Any]:
    """The body of the engine's "create container"."""
    env = {**spec.environment(), "PROXY_URL": rules.proxy_url(spec), "SESSIONS_DIR": SESSIONS_INSIDE}
    # an explicit worker setting wins, as with every runner
    env.update(spec.extra_env)
    return {
        "Image": rules.image,
        "User": rules.user,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": {
            INSTALLATION: rules.installation,
            _SESSION: spec.session_id,
            _RUN_ORDER: str(spec.run_order),
            _PROXY: spec.proxy_id,
        },
        "StopSignal": "SIGTERM",
        "HostConfig": {
            "Binds": [f"{rules.host_sessions_path / spec.session_id}:{SESSIONS_INSIDE}/{spec.session_id}"],
            "NetworkMode": rules.network,
            # for when no control plane is there to do it: after a reboot, or while it is being upgraded
            "RestartPolicy": {"Name": "unless-stopped"},
            "Memory": rules.memory_mb << 20,
            "MemorySwap": rules.memory_mb << 20,  # the same: no swap
            "NanoCpus": int(rules.cpus * 1_000_000_000),
            "PidsLimit": rules.pids,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges:true"],
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": _TMPFS},  # noqa: S108 - inside the container
            "Init": True,
            # The engine's own name server forwards questions to the host's, past any network rule. Workers look
            # nothing up: they know addresses, and the proxy resolves names.
            "Dns": ["127.0.0.1"],
            "DnsOptions": ["timeout:1", "attempts:1"],  # a look-up all the same is told so at once
            "LogConfig": {
                "Type": "json-file",
                "Config": {"max-size": str(rules.log_bytes), "max-file": str(_LOG_FILES)},
            },
        },
    }


def filters_for(installation: str) -> dict[str, list[str]]:
    """Finds our containers and nobody else's."""
    return {"label": [f"{INSTALLATION}={installation}"]}


@dataclass(frozen=True, kw_only=True)
class Found:
    """A worker's container as the engine shows it."""

    container_id: str
    installation: str
    worker: RunningWorker
    started_ns: int
    running: bool
    restarting: bool
    exit_code: int


def found(shown: Mapping[str, Any]) -> Found:
    """Reads the engine's "inspect container"."""
    labels: Mapping[str, str] = shown["Config"].get("Labels") or {}
    state = shown["State"]
    started_ns = nanoseconds(state["StartedAt"])
    restarting = bool(state["Restarting"])
    return Found(
        container_id=shown["Id"],
        installation=labels.get(INSTALLATION, ""),
        worker=_worker(labels, container_id=shown["Id"], started_ns=started_ns),
        started_ns=started_ns,
        running=bool(state["Running"]) and not restarting,  # the engine calls a restarting one running, too
        restarting=restarting,
        exit_code=int(state["ExitCode"]),
    )


@dataclass(frozen=True, kw_only=True)
class ContainerEvent:
    """A container of ours started or died."""

    action: str
    container_id: str
    at_ns: int
    exit_code: int | None
    worker: RunningWorker


def container_event(told: Mapping[str, Any]) -> ContainerEvent:
    """Reads one entry of the engine's event stream."""
    attributes: Mapping[str, str] = told["Actor"]["Attributes"]
    at_ns = int(told["timeNano"])
    code = attributes.get("exitCode", "")
    return ContainerEvent(
        action=told["Action"],
        container_id=told["Actor"]["ID"],
        at_ns=at_ns,
        exit_code=int(code) if code else None,
        worker=_worker(attributes, container_id=told["Actor"]["ID"], started_ns=at_ns),
    )


def _worker(labels: Mapping[str, str], *, container_id: str, started_ns: int) -> RunningWorker:
    return RunningWorker(
        session_id=labels.get(_SESSION, ""),
        run_order=int(labels.get(_RUN_ORDER, "0")),
        proxy_id=labels.get(_PROXY, ""),
        handle=container_id[:12],
        started_at=started_ns // 1_000_000,
    )


def nanoseconds(moment: str) -> int:
    """`2026-01-31T10:00:00.123456789Z` since the epoch. Python's own reader stops at microseconds."""
    match = _MOMENT.match(moment)
    if match is None:
        return 0
    seconds = int(datetime.fromisoformat(f"{match['second']}+00:00").timestamp())
    return max(seconds, 0) * 1_000_000_000 + int((match["fraction"] or "").ljust(9, "0")[:9])
