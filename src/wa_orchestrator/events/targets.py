"""Where webhooks may lead: not into our own network, unless the operator allows it.

The address is looked at when a webhook is made, to say so at once, and again on the very socket that is about to be
opened: a name that meanwhile points elsewhere does not get through.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from wa_orchestrator.errors import InvalidWebhookUrl, SettingsError, WebhookTargetRefused

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LONGEST_URL = 2000
_RESOLVE_S = 5.0
# beyond what Python calls not global: services of clouds, networks of labs and the like
_NEVER = tuple(
    ip_network(text)
    for text in ("0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4",
                 "::/128", "fec0::/10", "64:ff9b:1::/48", "2001::/32")
)  # fmt: skip
_NAT64 = ip_network("64:ff9b::/96")
_IPV4_COMPATIBLE = ip_network("::/96")


class TargetRefused(OSError):
    """The socket is not opened; told apart from the network's own errors by its text."""

    def __init__(self) -> None:
        super().__init__(errno.EACCES, "target refused")


def inner_addresses(address: Address) -> list[Address]:
    """The address and every IPv4 address that it carries inside: each of them must be allowed."""
    if isinstance(address, IPv4Address):
        return [address]
    inside: list[Address] = [address]
    if address.ipv4_mapped:
        inside.append(address.ipv4_mapped)
    if address.sixtofour:
        inside.append(address.sixtofour)
    if address.teredo:
        inside += address.teredo
    if address in _NAT64 or address in _IPV4_COMPATIBLE:
        inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return inside


def is_public(address: Address) -> bool:
    def public(one: Address) -> bool:
        named = any(one.version == network.version and one in network for network in _NEVER)
        return one.is_global and not one.is_multicast and not named

    # a mapped address counts as what it stands for (Pythons differ in what they call such a one); every other one must
    # be public itself too
    mapped = isinstance(address, IPv6Address) and (address.ipv4_mapped or address.sixtofour or address in _NAT64)
    return all(public(one) for one in inner_addresses(address)[1 if mapped else 0 :])


@dataclass(frozen=True)
class Guard:
    """Which addresses webhooks may reach."""

    everything: bool = False
    networks: tuple[Network, ...] = ()

    @staticmethod
    def from_setting(text: str) -> Guard:
        """`false`, `true`, or networks with commas between: `10.1.0.0/16, 192.168.1.7`."""
        word = text.strip().lower()
        if word in {"true", "1", "yes", "on"}:
            return Guard(everything=True)
        if word in {"", "false", "0", "no", "off"}:
            return Guard()
        try:
            return Guard(networks=tuple(ip_network(part.strip(), strict=False) for part in word.split(",")))
        except ValueError:
            raise SettingsError(
                "WEBHOOK_ALLOW_PRIVATE must be true, false or networks such as 10.1.0.0/16, 192.168.1.7."
            ) from None

    def allows(self, address: Address) -> bool:
        if self.everything or is_public(address):
            return True
        # the one that counts on the wire: a mapped address is the IPv4 address
        shown = address.ipv4_mapped if isinstance(address, IPv6Address) and address.ipv4_mapped else address
        return any(shown.version == network.version and shown in network for network in self.networks)

    def opened_socket(self, info: tuple[object, ...]) -> socket.socket:
        """What the HTTP client connects with: made only for an address that is allowed."""
        family, kind, protocol, _, where = info
        assert isinstance(where, tuple) and isinstance(family, int)  # noqa: S101, PT018 - narrows the type
        try:
            allowed = self.allows(ip_address(str(where[0]).split("%", maxsplit=1)[0]))
        except ValueError:
            allowed = False
        if not allowed:
            raise TargetRefused
        return socket.socket(family, kind, protocol)  # type: ignore[arg-type]

    async def check(self, url: str) -> None:
        """Raises when the address certainly is not allowed. A name that is not known yet may be known later."""
        parts = read_url(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
        try:
            async with asyncio.timeout(_RESOLVE_S):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError):
            return
        for *_, where in found:
            if not self.allows(ip_address(str(where[0]).split("%", maxsplit=1)[0])):
                raise WebhookTargetRefused


def read_url(url: str) -> SplitResult:
    """Raises InvalidWebhookUrl with what is wrong; never quotes the address, which may hold a password."""
    if len(url) > LONGEST_URL or not url.isascii() or any(c.isspace() or not c.isprintable() for c in url):
        raise InvalidWebhookUrl(f"The address must be up to {LONGEST_URL} plain characters; encode others with %.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidWebhookUrl from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0 or parts.fragment:
        raise InvalidWebhookUrl
    return parts


def shown_url(url: str) -> str:
    """The address for lists and logs: without credentials, and without the values of its query, often a token."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    query = urlencode([(name, "…") for name, _ in parse_qsl(parts.query, keep_blank_values=True)], safe="…")
    return urlunsplit((parts.scheme, host, parts.path, query, ""))


def has_credentials(url: str) -> bool:
    parts = urlsplit(url)
    return "@" in parts.netloc or bool(parts.query)
