"""A SOCKS5 proxy: how it is written, checked and named."""

from __future__ import annotations

import hashlib
import ipaddress
import re
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import quote, unquote

from wa_orchestrator.errors import InvalidProxy

_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"^(?=.{{1,253}}$)({_LABEL}\.)*{_LABEL}$")
_LOOKS_LIKE_IPV4 = re.compile(r"(^|\.)[0-9]+$")  # no name ends in a number, so this is an address or a slip
_SHAPE = re.compile(
    r"^(?:(?P<user>[^:@/\s]*)(?::(?P<password>[^@/\s]*))?@)?"
    r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:@/\s\[\]]*)(?::(?P<port>[^@/\s]*))?/?$"
)
_OTHER_SCHEMES = frozenset({"http", "https", "socks4", "socks4a", "ftp", "ws", "wss", "ss", "ssh", "tcp", "udp"})
_LONGEST_CREDENTIAL = 255  # one length byte in RFC 1929
_EXAMPLE = "Write it as socks5h://user:pass@host:port."


class ProxyStatus(StrEnum):
    ACTIVE = "active"
    BAD = "bad"
    TESTING = "testing"


@dataclass(frozen=True)
class ProxyAddress:
    """Where a proxy is and how to sign in there."""

    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)

    @property
    def proxy_id(self) -> str:
        """The same for the same place and user. The password is not part of it: key names must carry no secret."""
        name = f"{self.user}@{self.host}:{self.port}"
        return f"px_{hashlib.sha256(name.encode()).hexdigest()[:12]}"

    @property
    def url(self) -> str:
        """The full address, password included: for workers and probes only, never for logs or answers."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        if not self.user:
            return f"socks5h://{host}:{self.port}"
        return f"socks5h://{quote(self.user, safe='')}:{quote(self.password, safe='')}@{host}:{self.port}"


def parse_proxy(text: str) -> ProxyAddress:
    """Reads `socks5h://user:pass@host:port`; the error says what is wrong without repeating the password."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        raise InvalidProxy(f"This is not a proxy address. {_EXAMPLE}")
    # before anything else: whoever pastes an http:// proxy should hear that, not where its path is wrong
    _check_scheme(scheme.lower())
    found = _SHAPE.match(rest)
    if not found:
        raise InvalidProxy(
            f"This is not a proxy address. {_EXAMPLE} In a user name or password write @ as %40, / as %2F, : as %3A."
        )
    if ":" in (found["port"] or ""):
        raise InvalidProxy("Put an IPv6 address in brackets: socks5h://user:pass@[2001:db8::1]:1080.")
    user, password = _checked_credential(found["user"]), _checked_credential(found["password"])
    if password and not user:
        raise InvalidProxy(f"There is a password but no user name. {_EXAMPLE}")
    return ProxyAddress(host=_checked_host(found["host"]), port=_checked_port(found["port"]),
                        user=user, password=password)  # fmt: skip


def _check_scheme(scheme: str) -> None:
    if scheme == "socks5h":
        return
    if scheme in {"socks5", "socks"}:
        raise InvalidProxy(
            "socks5:// would look names up on this server and so give its address away. Write socks5h:// instead."
        )
    # anything unknown is not repeated: it may be part of a password
    name = f"{scheme}://" if scheme in _OTHER_SCHEMES else "This kind of proxy"
    raise InvalidProxy(f"{name} is not supported, only SOCKS5 with names resolved at the proxy. {_EXAMPLE}")


def _checked_credential(encoded: str | None) -> str:
    try:
        text = unquote(encoded or "", errors="strict")
        size = len(text.encode())
    except UnicodeError:
        raise InvalidProxy("User name and password must be UTF-8 text, percent-encoded where needed.") from None
    if size > _LONGEST_CREDENTIAL:
        raise InvalidProxy("User name and password may have at most 255 bytes each.")
    return text


def _checked_host(host: str) -> str:
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise InvalidProxy("The IPv6 address in brackets is not valid.") from None
    if not host:
        raise InvalidProxy(f"The host is missing. {_EXAMPLE}")
    if not _HOST.match(host):
        raise InvalidProxy(f"The host name is not valid. {_EXAMPLE}")
    if _LOOKS_LIKE_IPV4.search(host):
        try:
            return str(ipaddress.IPv4Address(host))
        except ValueError:
            raise InvalidProxy("The IPv4 address is not valid.") from None
    return host.lower()


def _checked_port(port: str | None) -> int:
    if not port:
        raise InvalidProxy(f"The port is missing. {_EXAMPLE}")
    if not port.isascii() or not port.isdigit() or len(port) > 5 or not 0 < int(port) < 65536:
        raise InvalidProxy(f"The port must be a number from 1 to 65535. {_EXAMPLE}")
    return int(port)


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A proxy of the pool with its present state."""

    proxy_id: str
    address: ProxyAddress
    status: ProxyStatus
    sessions: tuple[str, ...] = ()
    bound_phones: int = 0
    draining: bool = False
    added_at: int = 0
    checked_at: int | None = None
    latency_ms: int | None = None
    exit_ip: str | None = None
    exit_ip_at: int | None = None
    bad_at: int | None = None
    last_error: str | None = None
    last_error_kind: str | None = None
    failures: int = 0
    next_check_at: int = 0
