"""The file `.env`: reading it, and the example of it that lists every setting."""

from __future__ import annotations

import re
from pathlib import Path

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.settings import PROXIES, described_settings


def env_example() -> str:
    """The text of `env.example`: every setting with its default and what it means."""
    lines = [
        "# Every setting with its default. Copy this file to .env and change what you need.",
        "# Made by scripts/make_env_example.py from settings.py; do not edit by hand.",
    ]
    group = ""
    for its_group, name, default, help_ in described_settings():
        if its_group != group:
            group = its_group
            lines += ["", f"# {group} {'-' * (117 - len(group))}"]
            if group == PROXIES:
                lines += ["# PROXY_URL_1, PROXY_URL_2 and so on: one proxy each, added at every start.",
                          "# PROXY_URL_1=socks5h://user:pass@proxy.example:1080"]  # fmt: skip
        lines += [f"# {help_}", f"{name}={default}"]
    return "\n".join(lines) + "\n"


def read_env_file(path: Path) -> dict[str, str]:
    """The NAME=value lines of a file; empty when there is none."""
    if not path.is_file():
        return {}
    found: dict[str, str] = {}
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        line = raw.strip().removeprefix("export ")
        if not line or line.startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip()):
            raise SettingsError(f"{path.name} line {number} is not NAME=value.")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
            value = value[1:-1]
        found[name.strip()] = value
    return found
