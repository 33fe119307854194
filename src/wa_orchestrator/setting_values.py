"""How the value of a setting is read and checked; a wrong one becomes a sentence that says what to write."""

from __future__ import annotations

import re
from collections.abc import Callable
from zoneinfo import ZoneInfo

from wa_orchestrator.alerts.kinds import KINDS
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.suppression.words import normalised


def text(name: str, value: str) -> str:
    return value.strip()


def whole(minimum: int, maximum: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            raise SettingsError(f"{name} must be a whole number, not {value!r}.") from None
        if not minimum <= number <= maximum:
            raise SettingsError(f"{name} must be between {minimum} and {maximum}, not {number}.")
        return number

    return read


def yes_no(name: str, value: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}
    try:
        return words[value.strip().lower()]
    except KeyError:
        raise SettingsError(f"{name} must be true or false, not {value!r}.") from None


def one_of(*choices: str) -> Callable[[str, str], str]:
    def read(name: str, value: str) -> str:
        word = value.strip().lower()
        if word not in choices:
            raise SettingsError(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
        return word

    return read


def zone(name: str, value: str) -> str:
    try:
        ZoneInfo(value.strip())
    except (KeyError, ValueError, OSError):
        raise SettingsError(f"{name} must be a time zone such as Asia/Jerusalem, not {value!r}.") from None
    return value.strip()


def time_or_off(name: str, value: str) -> str:
    word = value.strip().lower()
    if word != "off" and not re.fullmatch(r"([01]?[0-9]|2[0-3]):[0-5][0-9]", word):
        raise SettingsError(f"{name} must be a time of day such as 03:00, or off, not {value!r}.")
    return word


def redis_url(name: str, value: str) -> str:
    url = value.strip()
    if url and not url.startswith(("redis://", "rediss://", "unix://", "valkey://", "valkeys://")):
        raise SettingsError(f"{name} must look like redis://:password@host:6379/0.")
    return re.sub(r"^valkey(s?)://", r"redis\1://", url)


def web_url(name: str, value: str) -> str:
    url = value.strip()
    if url and not re.fullmatch(r"https?://[^\s/@]+(/\S*)?", url):
        raise SettingsError(f"{name} must be a web address such as https://ip.example/, without user or password.")
    return url


def host_port(name: str, value: str) -> str:
    host, _, port = value.strip().rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SettingsError(f"{name} must be written host:port, for example web.whatsapp.com:443, not {value!r}.")
    return value.strip()


def cpus(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0.01 <= number <= 1024:
        raise SettingsError(f"{name} must be a number of CPUs such as 0.5 or 2, not {value!r}.")
    return number


def docker_host(name: str, value: str) -> str:
    if not re.match(r"^(unix:///|tcp://|https?://).", value.strip()):
        raise SettingsError(f"{name} must look like unix:///var/run/docker.sock or tcp://host:2375.")
    return value.strip()


def host_path(name: str, value: str) -> str:
    path = value.strip()
    if path and (not path.startswith("/") or ":" in path or ".." in path.split("/")):
        raise SettingsError(f"{name} must be a full path of the Docker machine, without colon or `..`.")
    return path.rstrip("/") if path != "/" else path


def optional_host_port(name: str, value: str) -> str:
    return host_port(name, value) if value.strip() else ""


def assignments(name: str, value: str) -> str:
    for word in value.split():
        if not re.fullmatch(r"[A-Z][A-Z0-9_]*=\S*", word):
            raise SettingsError(f"{name} must be NAME=value with spaces between, for example ACK_TIMEOUT_MS=20000.")
    return value.strip()


def web_address(name: str, value: str) -> str:
    if not re.match(r"^https?://[^\s/@]+(/\S*)?$", value.strip()):
        raise SettingsError(f"{name} must look like https://api.telegram.org.")
    return value.strip().rstrip("/")


def alert_kinds(name: str, value: str) -> str:
    words = sorted({word.strip().lower() for word in value.split(",") if word.strip()})
    if unknown := set(words) - set(KINDS):
        raise SettingsError(f"{name}: there is no alert {min(unknown)!r}; the kinds are {', '.join(KINDS)}.")
    return ",".join(words)


def short_text(longest: int) -> Callable[[str, str], str]:
    def read(name: str, value: str) -> str:
        if len(value.strip()) > longest:
            raise SettingsError(f"{name} must have at most {longest} characters.")
        return value.strip()

    return read


def allowed_networks(name: str, value: str) -> str:
    from wa_orchestrator.events.targets import Guard  # noqa: PLC0415 - commands that need no settings start faster

    Guard.from_setting(value)  # raises with a sentence
    return value.strip().lower()


def opt_words(standard: tuple[str, ...]) -> Callable[[str, str], tuple[str, ...]]:
    """Words with commas between; `standard` stands for our own list, `off` for none."""

    def read(name: str, value: str) -> tuple[str, ...]:
        words: list[str] = []
        for word in (part.strip() for part in value.split(",")):
            if word.lower() == "standard":
                words += standard
            elif word and word.lower() != "off":
                words.append(word)
        if empty := [word for word in words if not normalised(word)]:
            raise SettingsError(f"{name}: {empty[0]!r} has no letter or digit, so no message could be it.")
        return tuple(words)

    return read
