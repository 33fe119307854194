"""Under which address the world sees a proxy: asked, through that proxy, of a page that tells its visitors theirs."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import ssl
from urllib.parse import urlsplit

from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.proxies.probe import ProbeFailed, through

_LONGEST_ANSWER = 4096
_WORD = re.compile(r"[0-9A-Fa-f:.]{7,45}")


async def exit_ip(proxy: ProxyAddress, url: str, *, timeout_s: float) -> str | None:
    """The address, or None: not knowing it is no fault of the proxy."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    request = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n"
    try:
        async with asyncio.timeout(timeout_s), through(proxy, f"{host}:{port}", timeout_s) as (reader, writer):
            if parts.scheme == "https":
                await writer.start_tls(ssl.create_default_context(), server_hostname=host)
            writer.write(request.encode())
            return address_in(await _read(reader))
    except (ProbeFailed, TimeoutError, OSError, asyncio.IncompleteReadError, UnicodeError):
        return None


async def _read(reader: asyncio.StreamReader) -> str:
    found = b""
    while len(found) < _LONGEST_ANSWER and (more := await reader.read(_LONGEST_ANSWER)):
        found += more
    return found[:_LONGEST_ANSWER].decode("latin-1")


def address_in(answer: str) -> str | None:
    """The first IP address in the body of an HTTP answer that went well."""
    head, _, body = answer.partition("\r\n\r\n")
    if " 200 " not in head.partition("\r\n")[0] + " ":
        return None
    for word in _WORD.findall(body):
        try:
            return str(ipaddress.ip_address(word))
        except ValueError:
            continue
    return None
