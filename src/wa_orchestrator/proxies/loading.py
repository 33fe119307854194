"""Reads proxies from text, one per line, in our own form and in those that vendors hand out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import quote

from wa_orchestrator.errors import InvalidProxy
from wa_orchestrator.model.proxy import ProxyAddress, parse_proxy

_COMMENT = re.compile(r"(^|\s)#.*$")  # a # without a space before it may belong to a password
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
_PLACE = r"(?P<host>\[[0-9a-fA-F:.]+\]|[^:@\s\[\]]+):(?P<port>[0-9]+)"
_LOGIN_FIRST = re.compile(rf"^(?P<user>[^:]+):(?P<password>.*)@{_PLACE}$")
_PLACE_FIRST = re.compile(rf"^{_PLACE}(?::(?P<user>[^:]+):(?P<password>.*))?$")
_FORMS = "Write socks5h://user:pass@host:port, host:port:user:pass or user:pass@host:port."


@dataclass(frozen=True)
class LineError:
    """A line that could not be read; the message repeats nothing of a login."""

    line: int
    message: str


@dataclass(frozen=True)
class ParsedLines:
    good: list[ProxyAddress] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # where each of the good ones stands
    errors: list[LineError] = field(default_factory=list)


def parse_lines(text: str) -> ParsedLines:
    """All proxies of a text. Comments and blank lines are skipped, a proxy that comes twice is taken once."""
    parsed = ParsedLines()
    seen: dict[str, tuple[int, ProxyAddress]] = {}
    for number, raw in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        line = _COMMENT.sub("", raw).strip()
        if not line:
            continue
        try:
            address = parse_line(line)
        except InvalidProxy as error:
            parsed.errors.append(LineError(number, error.message))
            continue
        first_line, first = seen.setdefault(address.proxy_id, (number, address))
        if first_line == number:
            parsed.good.append(address)
            parsed.lines.append(number)
        elif first != address:
            message = f"This is the proxy of line {first_line} with another password. Keep the right one of the two."
            parsed.errors.append(LineError(number, message))
    return parsed


def parse_line(line: str) -> ProxyAddress:
    """One proxy in any of the known forms; vendors' forms hold the login as it is, without percent-encoding."""
    line = line.strip()
    if _SCHEME.match(line):
        return parse_proxy(line)
    found = _LOGIN_FIRST.match(line) or _PLACE_FIRST.match(line)
    if not found:
        raise InvalidProxy(f"This is not a proxy address. {_FORMS}")
    login = f"{_encoded(found['user'])}:{_encoded(found['password'])}@" if found["user"] else ""
    return parse_proxy(f"socks5h://{login}{found['host']}:{found['port']}")


def _encoded(text: str) -> str:
    # half a surrogate pair passes here and is refused, with a sentence, where the address is read
    return quote(text, safe="", errors="surrogatepass")
