"""Asks one proxy whether it works: a real SOCKS5 login and a connection to a target by name.

python-socks writes the messages. They are sent one by one from here, because its own `connect` reports a wrong
password, a foreign protocol and a silent server in ways that cannot be told apart reliably.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum

from python_socks._protocols import socks5

from wa_orchestrator.model.proxy import ProxyAddress

_NO_ROUTE = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
_NOT_SOCKS5 = "The proxy {place} gives an answer that is not SOCKS5."


class ProbeKind(StrEnum):
    """The same words as in the worker's reports."""

    AUTH = "auth"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    PROTOCOL = "protocol"
    TARGET = "target"


@dataclass(frozen=True, kw_only=True)
class ProbeResult:
    """What was found; the text is for the operator and names neither user nor password."""

    ok: bool
    text: str
    kind: ProbeKind | None = None
    latency_ms: int | None = None
    proxy_works: bool = False  # the proxy let us in; if not ok, only the target is out of its reach


class ProbeFailed(Exception):
    """The walk through the proxy ended early; the text may still hold {place} and the like."""

    def __init__(self, kind: ProbeKind, text: str) -> None:
        self.kind = kind
        self.text = text
        super().__init__(text)


@dataclass
class _Progress:
    """How far we came: a silence or a closed connection means something else at each step."""

    step: str = "connect"


_SILENT = {
    "connect": "No answer from {place}: the connection was not accepted within {timeout_s:g} s. "
    "Check host and port, and whether a firewall drops the packets.",
    "greeting": "{place} accepts connections but never answers (waited {timeout_s:g} s). "
    "The proxy hangs or is overloaded, or something else than SOCKS5 listens there.",
    "login": "The proxy {place} did not answer the login within {timeout_s:g} s. It hangs or is overloaded.",
    "target": "The proxy {place} let us in, but did not connect to {target} within {timeout_s:g} s.",
}
_CLOSED = {
    "connect": "{place} closed the connection.",
    "greeting": "{place} accepts connections and closes them at once. Check the port, and whether the proxy lets this "
    "server's address in.",
    "login": "The proxy {place} closed the connection on the login. Often this means a wrong user name or password, "
    "or an expired account.",
    "target": "The proxy {place} let us in, but closed the connection when asked for {target}.",
}
_REPLIES = {
    1: (ProbeKind.REFUSED, "The proxy {place} reports a general failure when asked for {target}. "
        "Perhaps it cannot look the name up; ask its provider."),
    2: (ProbeKind.REFUSED, "The proxy {place} does not allow connections to {target}. Ask its provider to allow it, "
        "or use another proxy."),
    3: (ProbeKind.TARGET, "The proxy {place} works, but its network has no way to {target}."),
    4: (ProbeKind.TARGET, "The proxy {place} works, but cannot reach {target}."),
    5: (ProbeKind.TARGET, "The proxy {place} works, but {target} refused its connection."),
    6: (ProbeKind.TARGET, "The proxy {place} works, but its connection to {target} took too long."),
    7: (ProbeKind.PROTOCOL, "The proxy {place} does not support ordinary connections (CONNECT). Use another proxy."),
    8: (ProbeKind.PROTOCOL, "The proxy {place} does not look names up itself, so it cannot be used. "
        "Use one that supports socks5h."),
}  # fmt: skip


async def probe(address: ProxyAddress, *, target: str, timeout_s: float) -> ProbeResult:
    """Signs in at the proxy and lets it connect to `target` ("host:port"); takes at most `timeout_s` in all."""
    progress = _Progress()
    words = {"place": _place(address), "target": target, "timeout_s": timeout_s}
    began = time.perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            async with through(address, target, timeout_s, progress):
                pass
    except ProbeFailed as failed:
        text = failed.text.format(**words)
        return ProbeResult(ok=False, kind=failed.kind, text=text, proxy_works=failed.kind is ProbeKind.TARGET)
    except TimeoutError:
        return ProbeResult(ok=False, kind=ProbeKind.TIMEOUT, text=_SILENT[progress.step].format(**words))
    except (asyncio.IncompleteReadError, OSError):
        return ProbeResult(ok=False, kind=ProbeKind.PROTOCOL, text=_CLOSED[progress.step].format(**words))
    latency_ms = round((time.perf_counter() - began) * 1000)
    return ProbeResult(
        ok=True, text=f"Works: {target} reached in {latency_ms} ms.", latency_ms=latency_ms, proxy_works=True
    )


@asynccontextmanager
async def through(
    address: ProxyAddress, target: str, timeout_s: float, progress: _Progress | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to `target` ("host:port") by way of the proxy; ProbeFailed where it refuses."""
    progress = progress or _Progress()
    async with _connected(address, timeout_s) as (reader, writer):
        progress.step = "greeting"
        login_wanted = await _greet(reader, writer, address)
        if login_wanted:
            progress.step = "login"
            await _sign_in(reader, writer, address)
        progress.step = "target"
        await _ask_for(reader, writer, target)
        yield reader, writer


@asynccontextmanager
async def _connected(
    address: ProxyAddress, timeout_s: float
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await _open(address, timeout_s)
    try:
        yield reader, writer
    finally:
        # nothing more is to be said, so there is nothing to wait for
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


async def _open(address: ProxyAddress, timeout_s: float) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    places = await _look_up(address)
    errors: list[OSError] = []
    for place in places:
        try:
            # an address family that leads nowhere must not use up the time of the one that works
            async with asyncio.timeout(timeout_s / len(places)):
                return await asyncio.open_connection(place, address.port)
        except OSError as error:  # TimeoutError is one
            errors.append(error)
    refused = next((e for e in errors if isinstance(e, ConnectionRefusedError)), None)
    raise _connect_failure(refused or errors[-1])


async def _look_up(address: ProxyAddress) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        raise ProbeFailed(
            ProbeKind.UNREACHABLE, "The host name of the proxy {place} is not known. Check how it is written."
        ) from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _connect_failure(error: OSError) -> Exception:
    if isinstance(error, ConnectionRefusedError):
        return ProbeFailed(
            ProbeKind.REFUSED, "Nothing listens at {place}. Check host and port, and whether the proxy runs."
        )
    if error.errno in _NO_ROUTE:
        return ProbeFailed(
            ProbeKind.UNREACHABLE, "There is no way from here to {place}. Check the address and this server's network."
        )
    if isinstance(error, TimeoutError):
        return TimeoutError()
    return ProbeFailed(ProbeKind.UNREACHABLE, "The proxy {place} cannot be reached from here. Check host and port.")


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: ProxyAddress) -> bool:
    """True when the proxy wants user name and password."""
    # "-" stands for an empty password: here it only says that a login can be offered
    offer = socks5.AuthMethodsRequest(username=address.user or None, password=address.password or "-")
    writer.write(offer.dumps())
    version, method = await reader.readexactly(2)
    if bytes([version, method]) == b"HT":
        raise ProbeFailed(ProbeKind.PROTOCOL, "An HTTP server answers at {place}, not a SOCKS5 proxy. "
                      "Ask the provider for the SOCKS5 port.")  # fmt: skip
    if version != socks5.SOCKS_VER:
        raise ProbeFailed(ProbeKind.PROTOCOL, "What answers at {place} is no SOCKS5 proxy. Check the port.")
    if method in offer.methods:
        return method == socks5.AuthMethod.USERNAME_PASSWORD
    if address.user:
        raise ProbeFailed(ProbeKind.AUTH, "The proxy {place} accepts neither user name and password nor a connection "
                      "without login. Ask its provider which login it wants.")  # fmt: skip
    raise ProbeFailed(ProbeKind.AUTH, "The proxy {place} demands a login, but none is given. "
                  "Write it as socks5h://user:pass@host:port.")  # fmt: skip


async def _sign_in(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: ProxyAddress) -> None:
    # not python-socks' AuthRequest: that one counts characters and only knows ASCII
    user, password = address.user.encode(), address.password.encode()
    writer.write(bytes([socks5.AuthRequest.VER, len(user)]) + user + bytes([len(password)]) + password)
    _, verdict = await reader.readexactly(2)
    if verdict != socks5.AUTH_GRANTED:
        raise ProbeFailed(ProbeKind.AUTH, "The proxy refused the user name or password. "
                      "Correct the login of {place}, or ask its provider.")  # fmt: skip


async def _ask_for(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, target: str) -> None:
    writer.write(_connect_request(target))
    version, reply = await reader.readexactly(2)
    if version != socks5.SOCKS_VER:
        raise ProbeFailed(ProbeKind.PROTOCOL, _NOT_SOCKS5)
    if reply != socks5.ReplyCode.SUCCEEDED:
        raise ProbeFailed(*_REPLIES.get(reply, (ProbeKind.PROTOCOL, _NOT_SOCKS5)))
    # the whole answer must come: a proxy that stops in the middle of it is of no use to a worker
    _, address_type = await reader.readexactly(2)
    await reader.readexactly(await _address_bytes(reader, address_type) + 2)


def _connect_request(target: str) -> bytes:
    host, _, port = target.rpartition(":")
    try:
        return socks5.ConnectRequest(host=host.strip("[]"), port=int(port)).dumps()
    except UnicodeError:
        raise ProbeFailed(ProbeKind.TARGET, "{target} is no valid host name. Correct PROXY_CHECK_TARGET.") from None


async def _address_bytes(reader: asyncio.StreamReader, address_type: int) -> int:
    if address_type == socks5.AddressType.IPV4:
        return 4
    if address_type == socks5.AddressType.IPV6:
        return 16
    if address_type == socks5.AddressType.DOMAIN:
        return (await reader.readexactly(1))[0]
    raise ProbeFailed(ProbeKind.PROTOCOL, _NOT_SOCKS5)


def _place(address: ProxyAddress) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
