"""Looks up receivers' names in threads of its own: one whose name server is silent must not hold up anybody else's."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aiohttp.abc import AbstractResolver, ResolveResult

_THREADS = 32
_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV


class NameResolver(AbstractResolver):
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="webhook-names")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        ask = partial(
            socket.getaddrinfo, host, port, family=family, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
        found = await asyncio.get_running_loop().run_in_executor(self._threads, ask)
        return [
            ResolveResult(
                hostname=host, host=str(where[0]), port=int(where[1]), family=kind, proto=protocol, flags=_NUMERIC
            )
            for kind, _, protocol, _, where in found
        ]

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
