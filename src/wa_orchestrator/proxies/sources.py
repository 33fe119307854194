"""Proxies from the settings: PROXY_URL_1 … n and a file."""

from __future__ import annotations

from pathlib import Path

from wa_orchestrator.errors import InvalidProxy, SettingsError
from wa_orchestrator.model.proxy import ProxyAddress, parse_proxy
from wa_orchestrator.proxies.loading import parse_lines
from wa_orchestrator.settings import Settings

HOW_TO_ADD = "Set PROXY_URL_1=socks5h://user:pass@host:port or PROXY_FILE, or use `wa-orchestrator proxies add`."


def configured_proxies(settings: Settings) -> list[ProxyAddress]:
    """All of them, or a SettingsError that names the one that is wrong."""
    found: list[ProxyAddress] = []
    for number, url in enumerate(settings.proxy_urls, start=1):
        try:
            found.append(parse_proxy(url))
        except InvalidProxy as error:
            raise SettingsError(f"The {_ordinal(number)} PROXY_URL_n is wrong. {error.message}") from None
    if settings.proxy_file:
        found.extend(_from_file(Path(settings.proxy_file)))
    return found


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")


def _from_file(path: Path) -> list[ProxyAddress]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise SettingsError(f"PROXY_FILE {path} cannot be read.") from None
    parsed = parse_lines(text)
    if parsed.errors:
        first = parsed.errors[0]
        raise SettingsError(f"PROXY_FILE {path} line {first.line}: {first.message}")
    return parsed.good
