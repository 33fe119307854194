"""A small SOCKS5 server for tests: it logs what it is asked, relays, and misbehaves on demand."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Mapping
from types import TracebackType
from typing import Self

_CONNECT, _IPV4, _DOMAIN, _IPV6 = 1, 1, 3, 4
_NO_LOGIN, _PASSWORD, _NO_METHOD = 0, 2, 0xFF
_REPLY_OF_FAULT = {"refuse-target": 2, "target-unreachable": 4}


class SocksServer:
    """`async with SocksServer(user=…, password=…) as server:` listens at `server.host`:`server.port`.

    `fault` may be changed at any time and counts for what comes next: None, "hang" (accepts, never answers), "drop"
    (closes at once), "auth" (refuses every login), "hang-after-auth", "refuse-target", "target-unreachable", "reply-N"
    (answers CONNECT with code N), "not-socks" (answers like an HTTP server).
    """

    def __init__(
        self,
        *,
        user: str | None = None,
        password: str | None = None,
        fault: str | None = None,
        names: Mapping[str, tuple[str, int]] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.user = user
        self.password = password
        self.fault = fault
        self.names = dict(names or {})
        self.host = host
        self.port = port
        self.requests: list[tuple[str, int, int]] = []  # (host, port, address type) of every CONNECT
        self.connections = 0  # accepted since the start
        self._server: asyncio.Server | None = None
        self._busy: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        login = f"{self.user}:{self.password}@" if self.user else ""
        return f"socks5h://{login}{self.host}:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self._busy)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens; after a stop, on the same port as before."""
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening and cuts every connection."""
        if self._server is None:
            return
        self._server.close()
        for task in list(self._busy):
            task.cancel()
        await asyncio.gather(*self._busy, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        self.connections += 1
        # cancelled only by `stop`, which wants a quiet end
        with contextlib.suppress(asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            await self._talk(reader, writer)
        writer.transport.abort() if self.fault == "drop" else writer.close()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await writer.wait_closed()
        self._busy.discard(task)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.fault == "drop":
            return
        if self.fault == "hang":
            await _until_closed(reader)
            return
        if self.fault == "not-socks":
            writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
            return
        if await self._let_in(reader, writer):
            await self._connect(reader, writer)

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        _, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        wanted = _NO_LOGIN if self.user is None else _PASSWORD
        if wanted not in offered:
            writer.write(bytes([5, _NO_METHOD]))
            await writer.drain()
            return False
        writer.write(bytes([5, wanted]))
        if wanted == _NO_LOGIN:
            return True
        user, password = await _read_login(reader)
        right = (user, password) == (self.user, self.password or "") and self.fault != "auth"
        writer.write(bytes([1, 0 if right else 1]))
        await writer.drain()
        return right

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, command, _, kind = await reader.readexactly(4)
        host = await _read_host(reader, kind)
        port = int.from_bytes(await reader.readexactly(2), "big")
        self.requests.append((host, port, kind))
        if self.fault == "hang-after-auth":
            await _until_closed(reader)
            return
        code = 7 if command != _CONNECT else self._reply_code()
        target: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        if code == 0:
            try:
                target = await asyncio.open_connection(*self.names.get(host, (host, port)))
            except OSError as error:
                code = 5 if isinstance(error, ConnectionRefusedError) else 4
        writer.write(bytes([5, code, 0, _IPV4, 0, 0, 0, 0, 0, 0]))
        await writer.drain()
        if target is not None:
            await _relay((reader, writer), target)

    def _reply_code(self) -> int:
        if self.fault is not None and self.fault.startswith("reply-"):
            return int(self.fault.removeprefix("reply-"))
        return _REPLY_OF_FAULT.get(self.fault or "", 0)


async def _read_login(reader: asyncio.StreamReader) -> tuple[str, str]:
    _, length = await reader.readexactly(2)
    user = await reader.readexactly(length)
    (length,) = await reader.readexactly(1)
    return user.decode(), (await reader.readexactly(length)).decode()


async def _read_host(reader: asyncio.StreamReader, kind: int) -> str:
    if kind == _DOMAIN:
        (length,) = await reader.readexactly(1)
        return (await reader.readexactly(length)).decode()
    return str(ipaddress.ip_address(await reader.readexactly(4 if kind == _IPV4 else 16)))


async def _until_closed(reader: asyncio.StreamReader) -> None:
    while await reader.read(4096):
        pass


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _relay(client: Stream, target: Stream) -> None:
    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                sink.write(data)
                await sink.drain()
            if sink.can_write_eof():
                sink.write_eof()

    pumps = [asyncio.create_task(pump(client[0], target[1])), asyncio.create_task(pump(target[0], client[1]))]
    try:
        await asyncio.gather(*pumps)
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        target[1].close()
        with contextlib.suppress(OSError):
            await target[1].wait_closed()
