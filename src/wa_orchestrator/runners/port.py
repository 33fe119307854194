"""The runner port: what the control plane needs from any place that runs workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import structlog

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """All that is needed to start one worker."""

    session_id: str
    run_order: int
    proxy_id: str
    proxy_url: str = field(repr=False)
    webhook_url: str
    webhook_secret: str = field(repr=False)
    enable_keep_alive: bool = True
    extra_env: Mapping[str, str] = field(default_factory=dict)  # optional worker settings that differ from the default

    def environment(self) -> dict[str, str]:
        """The variables of the worker contract."""
        return {
            "SESSION_ID": self.session_id,
            "PROXY_URL": self.proxy_url,
            "WEBHOOK_URL": self.webhook_url,
            "WEBHOOK_SECRET": self.webhook_secret,
            "ENABLE_KEEP_ALIVE": "true" if self.enable_keep_alive else "false",
            **self.extra_env,
        }


@dataclass(frozen=True, kw_only=True)
class RunningWorker:
    """A worker that runs now, and what it was started with."""

    session_id: str
    run_order: int
    proxy_id: str
    handle: str  # process or container id, for people
    started_at: int  # ms since the epoch


@dataclass(frozen=True, kw_only=True)
class WorkerExit:
    """A worker ended, wanted or not. The exit code is unknown for one that an earlier control plane had started."""

    session_id: str
    run_order: int
    exit_code: int | None


def tell_of_exit(listeners: Iterable[Callable[[WorkerExit], None]], ended: WorkerExit) -> None:
    """Everybody hears of it, also when one of them fails."""
    for tell in listeners:
        try:
            tell(ended)
        except Exception:
            log.exception("exit_not_heard", session_id=ended.session_id)


class WorkerLocked(Exception):
    """Another worker, possibly of another server, holds the session's folder."""


class Runner(Protocol):
    """Starts and stops workers. Every method may be repeated without harm."""

    @property
    def outlives_server(self) -> bool:
        """Do workers go on when the server is stopped on purpose? Containers do, local processes do not."""
        ...

    async def open(self) -> list[RunningWorker]:
        """Finds and adopts workers left running by an earlier control plane; they are not touched."""
        ...

    async def start(self, spec: WorkerSpec) -> RunningWorker:
        """Returns when it runs. One that already runs for this session is returned as it is.

        Raises WorkerLocked, or RunnerUnavailable when it cannot be started at all.
        """
        ...

    async def stop(self, session_id: str, *, timeout_s: float = 12.0) -> None:
        """Asks the worker to end, insists after `timeout_s`; returns when it is gone."""
        ...

    async def poll(self, session_id: str) -> RunningWorker | None: ...

    async def list_running(self) -> list[RunningWorker]: ...

    def on_exit(self, tell: Callable[[WorkerExit], None]) -> None:
        """`tell` is called at once when a worker ends, whoever ended it."""
        ...

    async def close(self, *, stop_workers: bool) -> None: ...
