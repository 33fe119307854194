"""Serves an ASGI app on a socket of ours until told to end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import uvicorn

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.http.asgi import App
from wa_orchestrator.http.one_write import OneWriteProtocol

_HTTP_STOP_S = 5
_DATE_S = 1.0
_LOOK_S = 0.01


class _Http(uvicorn.Server):
    """Leaves the signals to us: workers are stopped before the HTTP side they report to.

    Ends when it is told and nobody is served any more; uvicorn itself looks ten times a second, and pauses in between.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.told_to_end = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        while not self.told_to_end.is_set():
            await self.on_tick(0)  # the date in every answer
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DATE_S):
                    await self.told_to_end.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HTTP_STOP_S):
                await asyncio.sleep(_LOOK_S)  # one that was just accepted counts too
                while state.connections or state.tasks:
                    await asyncio.sleep(_LOOK_S)
        for task in state.tasks:
            task.cancel("The server stops.")


class Serving:
    def __init__(self, server: _Http, task: asyncio.Task[None]) -> None:
        self._server = server
        self._task = task

    async def end(self) -> None:
        self._server.told_to_end.set()
        await asyncio.wait([self._task], timeout=_HTTP_STOP_S * 2)


def bound_socket(host: str, port: int, *, setting: str = "ORCH_PORT") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # with the protocol named: asyncio turns Nagle's delay (40 ms per answer) off for such sockets only
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise SettingsError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Choose another port with "
            f"{'--port or ' if setting == 'ORCH_PORT' else ''}{setting}."
        ) from error
    listening.set_inheritable(False)
    return listening


def url_of(host: str, port: int) -> str:
    """An address to connect to, for one to listen on."""
    if host in {"0.0.0.0", ""}:  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    elif host == "::":
        host = "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(app: App, listening: socket.socket) -> Serving:
    config = uvicorn.Config(
        app,
        http=OneWriteProtocol,
        log_config=None,
        access_log=False,
        log_level="error",  # every malformed request of a stranger would be a line in the log
        lifespan="off",
        server_header=False,
        proxy_headers=False,  # who asks is of interest to a few routes only, see app.py
        timeout_keep_alive=75,
        ws_max_size=65536,
    )
    server = _Http(config)
    task = asyncio.create_task(server.serve(sockets=[listening]), name="http")
    while not server.started:
        if task.done():
            task.result()
            raise SettingsError("The HTTP side did not start; the log says why.")
        await asyncio.sleep(0.01)
    return Serving(server, task)
