"""The filter in front of the Docker engine: passes on what its rules allow, answers 403 to everything else."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from urllib.parse import quote

import aiohttp
import structlog
from aiohttp import web

from wa_orchestrator.runners.docker_filter_rules import Allowed, FilterRules, NotAllowed, is_worker, judge

log = structlog.get_logger()

_UNIX = "unix://"
_LARGEST_BODY = 256 << 10
_CONNECT_S = 5.0
_CHUNK = 64 << 10


class DockerFilter:
    """Listens on a Unix socket or a TCP port; the engine is behind it."""

    def __init__(self, *, engine: str, rules: FilterRules) -> None:
        self._engine = engine
        self._rules = rules
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None

    async def open(self, listen: str) -> None:
        """`listen`: unix:///path, or tcp://host:port."""
        limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
        on_socket = self._engine.startswith(_UNIX)
        connector = aiohttp.UnixConnector(self._engine.removeprefix(_UNIX), limit=0) if on_socket else None
        self._session = aiohttp.ClientSession(connector=connector, timeout=limits, auto_decompress=False)
        app = web.Application(client_max_size=_LARGEST_BODY)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # a caller that is gone ends its request: an event stream would go on for ever
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        await self._site(self._runner, listen).start()
        if listen.startswith(_UNIX):
            # whoever is given this socket's folder may use it; there is no other way to it
            Path(listen.removeprefix(_UNIX)).chmod(0o666)

    def _site(self, runner: web.AppRunner, listen: str) -> web.BaseSite:
        if listen.startswith(_UNIX):
            path = Path(listen.removeprefix(_UNIX))
            path.unlink(missing_ok=True)  # of an earlier run
            return web.UnixSite(runner, os.fspath(path))
        host, _, port = listen.removeprefix("tcp://").rpartition(":")
        return web.TCPSite(runner, host, int(port))

    async def close(self) -> None:
        if self._runner:
            await self._runner.cleanup()
        if self._session:
            await self._session.close()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            allowed = judge(request.method, request.path, request.query, await request.read(), self._rules)
            if len(request.query) != len(set(request.query)):
                raise NotAllowed("a parameter is given twice")
            if "upgrade" in request.headers:
                raise NotAllowed("workers need no upgraded connection")
            await self._check_container(allowed)
        except NotAllowed as why:
            log.warning("docker_request_refused", method=request.method, path=request.path, why=str(why))
            return web.json_response({"message": f"refused by the Docker filter: {why}"}, status=403)
        except (aiohttp.ClientError, OSError, TimeoutError):
            return _away()
        return await self._pass_on(request, allowed)

    async def _check_container(self, allowed: Allowed) -> None:
        """A name or an id in the path must be a worker's; an unknown one gets the engine's own 404."""
        if allowed.container is None:
            return
        async with self._client.get(self._url(f"/containers/{quote(allowed.container)}/json")) as answer:
            if answer.status == 200 and not is_worker(await answer.json()):
                raise NotAllowed("this container is no worker")

    async def _pass_on(self, request: web.Request, allowed: Allowed) -> web.StreamResponse:
        # built from what was checked, never from what was sent: two readers of one text may disagree
        try:
            answer = await self._client.request(
                request.method, self._url(allowed.path), params=dict(request.query), json=allowed.body
            )
        except (aiohttp.ClientError, OSError, TimeoutError):
            return _away()
        async with answer:
            passed = web.StreamResponse(status=answer.status)
            passed.content_type = answer.content_type
            await passed.prepare(request)
            try:
                async for chunk in answer.content.iter_any():
                    await passed.write(chunk)
                await passed.write_eof()
            except (aiohttp.ClientError, OSError):
                # the engine broke off in mid-answer; the caller must notice, so the connection ends without an end
                if request.transport:
                    request.transport.abort()
            except asyncio.CancelledError:
                answer.close()
                raise
            return passed

    @property
    def _client(self) -> aiohttp.ClientSession:
        assert self._session is not None, "open() comes first"  # noqa: S101
        return self._session

    def _url(self, path: str) -> str:
        base = "http://docker" if self._engine.startswith(_UNIX) else self._engine.replace("tcp://", "http://", 1)
        return f"{base}{path}"


def _away() -> web.Response:
    return web.json_response({"message": "the Docker engine behind the filter does not answer"}, status=503)
