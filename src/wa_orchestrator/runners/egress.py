"""The egress relay: the workers' only way out of their network, and it leads to their own proxy only.

A worker signs in with its pass, as at any SOCKS5 proxy. The relay signs in at the session's real proxy in its place;
from then on it passes bytes on and understands none of them, so the proxy's own answers reach the worker as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import Awaitable, Callable

import structlog

from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.runners.egress_pass import Pass, checked_pass
from wa_orchestrator.store import Store

log = structlog.get_logger()

FindProxy = Callable[[Pass], Awaitable[ProxyAddress | None]]

_SIGN_IN_S = 10.0
# Longer than a worker waits: then it is the worker that calls it a time-out, as without a relay.
_PROXY_S = 60.0
_CONNECTIONS_EACH = 64  # of one session: a WebSocket and a few media transfers; a runaway must not starve the others
_LAST_WORDS_S = 2.0
_CHUNK = 64 << 10
_VERSION, _SIGN_IN_VERSION = 5, 1
_NO_SIGN_IN, _PASSWORD, _NO_METHOD = 0, 2, 255
_GENERAL_FAILURE = b"\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00"


class _Refused(Exception):
    """The connection is not to be relayed."""


class _ProxySignInRefused(_Refused):
    """The real proxy did not like its user name or password."""


class PoolLookup:
    """Whether a session is on that proxy now, and where the proxy is. While the store is away: what it last said."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._last: dict[Pass, ProxyAddress] = {}

    async def __call__(self, shown: Pass) -> ProxyAddress | None:
        try:
            session = await self._store.sessions.get(shown.session_id)
            proxy = await self._store.proxies.get(shown.proxy_id)
        except StoreUnavailable:
            return self._last.get(shown)
        if session is None or session.proxy_id != shown.proxy_id or proxy is None:
            self._last.pop(shown, None)  # moved or deleted: its old worker has no business here any more
            return None
        self._last[shown] = proxy.address
        return proxy.address


class EgressRelay:
    """Listens for workers on one port."""

    def __init__(self, *, secret: str, find_proxy: FindProxy) -> None:
        self._secret = secret
        self._find_proxy = find_proxy
        self._open: Counter[str] = Counter()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, host: str, port: int) -> int:
        """Returns the port, for when 0 was asked for."""
        self._server = await asyncio.start_server(self._take, host, port, limit=_CHUNK)
        return int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            _keep_alive(writer)
            await self._relay(reader, writer)
        except _Refused as why:
            log.warning("egress_refused", why=str(why))
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass  # the other side ended it
        except asyncio.CancelledError:
            pass  # we are closing; asyncio would call it an error
        finally:
            await _shut(writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_SIGN_IN_S):
            shown = await self._sign_in(reader, writer)
        if self._open[shown.session_id] >= _CONNECTIONS_EACH:
            raise _Refused(f"{shown.session_id} has {_CONNECTIONS_EACH} connections already")
        self._open[shown.session_id] += 1
        try:
            await self._lead(shown, reader, writer)
        finally:
            self._open[shown.session_id] -= 1
            if not self._open[shown.session_id]:
                del self._open[shown.session_id]

    async def _sign_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Pass:
        version, count = await reader.readexactly(2)
        methods = await reader.readexactly(count) if version == _VERSION else b""
        if _PASSWORD not in methods:
            writer.write(bytes((_VERSION, _NO_METHOD)))
            raise _Refused("no pass was shown")
        writer.write(bytes((_VERSION, _PASSWORD)))
        sign_in_version, size = await reader.readexactly(2)
        user = (await reader.readexactly(size)).decode(errors="replace")
        password = (await reader.readexactly((await reader.readexactly(1))[0])).decode(errors="replace")
        shown = checked_pass(self._secret, user=user, password=password)
        if sign_in_version != _SIGN_IN_VERSION or shown is None:
            writer.write(bytes((_SIGN_IN_VERSION, 1)))
            raise _Refused("a pass was forged")
        return shown

    async def _lead(self, shown: Pass, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = await self._find_proxy(shown)
        if address is None:
            writer.write(bytes((_SIGN_IN_VERSION, 1)))
            raise _Refused(f"{shown.session_id} is not on proxy {shown.proxy_id}")
        try:
            async with asyncio.timeout(_PROXY_S):
                proxy_reader, proxy_writer = await _signed_in(address)
        except _ProxySignInRefused:
            writer.write(bytes((_SIGN_IN_VERSION, 1)))
            raise
        except (OSError, asyncio.IncompleteReadError):
            # as a proxy says that it cannot; a worker reports it as the proxy's fault
            writer.write(bytes((_SIGN_IN_VERSION, 0)))
            await asyncio.wait_for(reader.read(_CHUNK), _SIGN_IN_S)
            writer.write(_GENERAL_FAILURE)
            await writer.drain()
            return
        try:
            writer.write(bytes((_SIGN_IN_VERSION, 0)))
            await _both_ways((reader, writer), (proxy_reader, proxy_writer))
        finally:
            await _shut(proxy_writer)


async def _signed_in(address: ProxyAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the proxy that awaits the worker's request."""
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=_CHUNK)
    try:
        _keep_alive(writer)
        methods = (_NO_SIGN_IN, _PASSWORD) if address.user else (_NO_SIGN_IN,)
        writer.write(bytes((_VERSION, len(methods), *methods)))
        version, method = await reader.readexactly(2)
        if version != _VERSION:
            raise _Refused("the proxy does not speak SOCKS5")
        if address.user and method == _PASSWORD:
            user, password = address.user.encode(), address.password.encode()
            writer.write(bytes((_SIGN_IN_VERSION, len(user))) + user + bytes((len(password),)) + password)
            if (await reader.readexactly(2))[1] != 0:
                raise _ProxySignInRefused("the proxy refused its user name or password")
        elif method != _NO_SIGN_IN:
            raise _ProxySignInRefused("the proxy wants another way to sign in")
    except BaseException:
        await _shut(writer)
        raise
    return reader, writer


_Side = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _both_ways(worker: _Side, proxy: _Side) -> None:
    """Until both sides have ended, or one is broken."""
    ways = [asyncio.create_task(_pass_on(worker[0], proxy[1])), asyncio.create_task(_pass_on(proxy[0], worker[1]))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def _shut(writer: asyncio.StreamWriter) -> None:
    """What was written is still sent, unless the other side does not take it."""
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), _LAST_WORDS_S)
    except (OSError, TimeoutError, asyncio.CancelledError):
        writer.transport.abort()


def _keep_alive(writer: asyncio.StreamWriter) -> None:
    """A peer that vanished without a word is noticed after some minutes."""
    raw: socket.socket = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, seconds in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 20), ("TCP_KEEPCNT", 5)):
        if hasattr(socket, name):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), seconds)
