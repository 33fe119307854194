"""Posts one event to one receiver: guarded, in bounded time, reading no more of the answer than it needs."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import defaultdict
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from wa_orchestrator.events.envelopes import Outgoing
from wa_orchestrator.events.names import NameResolver
from wa_orchestrator.events.targets import Guard

_MOST_PER_HOST = 32
_MOST_OF_ANSWER = 4096  # read so that the connection can be used again; more than this is not worth it
_GONE = 410
# the first that fits: the later ones are wider
_WORDS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((TimeoutError,), "no answer in time"),
    ((aiohttp.ClientConnectorDNSError,), "the name is not known"),
    (
        (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError, ssl.SSLError),
        "TLS failed: the certificate is not trusted or not for this name",
    ),
    ((aiohttp.ClientConnectorError,), "no connection"),
    ((ValueError,), "the address cannot be used"),
)


@dataclass(frozen=True)
class Answer:
    """What came of it. `error` is ours, never the receiver's text: that may hold anything."""

    status: int | None
    error: str
    took_ms: int

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def gone(self) -> bool:
        return self.status == _GONE


class WebhookSender:
    def __init__(self, guard: Guard, *, timeout_ms: int) -> None:
        self._guard = guard
        self._timeout = aiohttp.ClientTimeout(total=timeout_ms / 1000)
        self._client: aiohttp.ClientSession | None = None
        self._names: NameResolver | None = None
        self._hosts: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(_MOST_PER_HOST))

    async def post(self, url: str, outgoing: Outgoing) -> Answer:
        # the time counts from when it is our turn: waiting for our own others is not the receiver's fault
        async with self._hosts[urlsplit(url).netloc.rpartition("@")[2]]:
            began = time.monotonic()
            status, error = await self._try(url, outgoing)
        return Answer(status, error, int((time.monotonic() - began) * 1000))

    async def _try(self, url: str, outgoing: Outgoing) -> tuple[int | None, str]:
        try:
            async with self._opened().post(
                url, data=outgoing.body, headers=outgoing.headers, allow_redirects=False, timeout=self._timeout
            ) as answer:
                await answer.content.read(_MOST_OF_ANSWER)
                if not answer.content.at_eof():
                    answer.close()
                return answer.status, "" if 200 <= answer.status < 300 else _said(answer.status)
        except (aiohttp.ClientError, OSError, ValueError) as error:  # a time-out is an OSError
            return None, _in_words(error)

    def _opened(self) -> aiohttp.ClientSession:
        if self._client is None:
            self._names = NameResolver()
            connector = aiohttp.TCPConnector(
                limit=0, socket_factory=self._guard.opened_socket, resolver=self._names, keepalive_timeout=30,
                ttl_dns_cache=30,
            )  # fmt: skip
            self._client = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False
            )
        return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None
        if self._names is not None:
            await self._names.close()
            self._names = None


def _in_words(error: Exception) -> str:
    """The library's own words may quote the address, which may hold a password."""
    if isinstance(error, aiohttp.ClientConnectorError) and "target refused" in str(error):
        return "private address, refused"
    for kinds, text in _WORDS:
        if isinstance(error, kinds):
            return text
    return "the connection broke"


def _said(status: int) -> str:
    if 300 <= status < 400:
        return f"answered {status}: redirects are not followed"
    return f"answered {status}"
