"""The simulated WhatsApp beside the server: started, found again after a crash, stopped with the server."""

from __future__ import annotations

import asyncio
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import structlog

from wa_orchestrator.background import wait_or_stop
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.processes import logfiles
from wa_orchestrator.processes.detached import Detached, find, start_detached
from wa_orchestrator.settings import Settings
from wa_orchestrator.worker_program import find_bundle, find_node

log = structlog.get_logger()

_READY_S = 30.0
_LOOK_AGAIN_S = 0.05
_STOP_S = 5.0


@dataclass(frozen=True)
class SimulatedWorld:
    """Where the simulated WhatsApp is."""

    url: str
    websocket_url: str
    root_public_key: str
    ca_file: str
    proxies: tuple[str, ...]

    def settings(self, settings: Settings) -> Settings:
        """Settings of a server that talks to it instead of to WhatsApp."""
        place = self.websocket_url.split("://", 1)[1].split("/", 1)[0]
        return replace(
            settings,
            wa_websocket_url=self.websocket_url,
            wa_root_public_key=self.root_public_key,
            wa_ca_file=self.ca_file,
            proxy_check_target=place,
            proxy_urls=(*settings.proxy_urls, *self.proxies),
        )

    def view(self) -> dict[str, object]:
        return {"url": self.url, "proxies": list(self.proxies)}


class Simulation:
    """Keeps all its state, ports included, in its folder: a new start is the same world."""

    def __init__(self, folder: Path, *, proxies: int) -> None:
        self._folder = folder
        self._proxies = proxies
        self._ready_file = folder / "ready.json"
        self._log_file = folder / "simulator.log"
        self._pid_file = folder / "simulator.pid"
        self._process: Detached | None = None

    async def start(self) -> SimulatedWorld:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        running = find(self._pid_file)
        if running and self._ready_file.is_file():
            self._process = running
            log.info("simulator_found", pid=running.pid)
            return self._world()
        return await self._start_new()

    async def _start_new(self) -> SimulatedWorld:
        self._ready_file.unlink(missing_ok=True)
        command = [find_node(), str(find_bundle("simulator")), "--state", str(self._folder / "state"),
                   "--proxies", str(self._proxies), "--ready-file", str(self._ready_file)]  # fmt: skip
        env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
        process = await start_detached(
            command, env=env, cwd=self._folder, log_file=self._log_file, pid_file=self._pid_file
        )
        self._process = process
        try:
            async with asyncio.timeout(_READY_S):
                while not self._ready_file.is_file():
                    if not process.alive():
                        break
                    await asyncio.sleep(_LOOK_AGAIN_S)
                else:
                    return self._world()
        except TimeoutError:
            await process.stop(_STOP_S)
        last = "\n".join(logfiles.last_lines(self._log_file, 5))
        raise SettingsError(f"The simulated WhatsApp did not start. Its last words:\n{last}")

    def _world(self) -> SimulatedWorld:
        ready = json.loads(self._ready_file.read_text(encoding="utf-8"))
        return SimulatedWorld(
            url=ready["url"],
            websocket_url=ready["websocketUrl"],
            root_public_key=ready["rootPublicKey"],
            ca_file=ready["caFile"],
            proxies=tuple(ready["proxies"]),
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Starts it again whenever it ends, with the same accounts and ports."""
        while not stop.is_set() and self._process:
            ended = asyncio.create_task(self._process.wait())
            stopped = asyncio.create_task(stop.wait())
            try:
                await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
                stopped.cancel()
                await asyncio.gather(ended, stopped, return_exceptions=True)
            if stop.is_set():
                return
            log.warning("simulator_died")
            if await wait_or_stop(stop, 0.5):
                return
            await self._start_new()

    async def stop(self) -> None:
        if self._process:
            await self._process.stop(_STOP_S)
