"""A hook of MkDocs: gathers the pages of the repository and makes the navigation from what is there.

Pages link to each other by their places in the repository (`../README.md`), so the site keeps those places.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "NOTICE",
    "env.example",
    "worker/README.md",
    "simulator/README.md",
    "clients/python/README.md",
    "clients/typescript/README.md",
)
# what comes first in its section; the rest follows by name
FIRST = (
    "docs/life-of-a-message.md",
    "docs/concepts.md",
    "docs/architecture.md",
    "docs/howto/first-session.md",
    "docs/howto/sending.md",
    "docs/howto/proxies.md",
    "docs/howto/limits.md",
    "docs/howto/dashboard.md",
)
LOGO = ROOT / "src" / "wa_orchestrator" / "dashboard" / "static" / "logo.svg"


def on_config(config: Any) -> Any:
    gathered = Path(tempfile.mkdtemp(prefix="docs-site-"))
    atexit.register(shutil.rmtree, gathered, ignore_errors=True)
    gather(gathered)
    config["docs_dir"] = str(gathered)
    config["nav"] = navigation(gathered)
    return config


def gather(target: Path) -> None:
    shutil.copytree(ROOT / "docs", target / "docs")
    for name in OUTSIDE:
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    if not (target / "docs" / "images" / "logo.svg").exists():
        shutil.copy(LOGO, target / "docs" / "images" / "logo.svg")


def navigation(target: Path) -> list[Any]:
    """Every page has its place; a new one needs no line here."""

    def entries(pattern: str) -> list[Any]:
        found = [str(path.relative_to(target)) for path in target.glob(pattern) if path.name != "README.md"]
        found = [name for name in found if name != "docs/index.md"]
        ordered = sorted(found, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
        return [{title(target / name): name} for name in ordered]

    parts = [
        str(path.relative_to(target)) for path in sorted(target.glob("*/**/README.md")) if "docs" not in path.parts
    ]
    return [
        {"Home": "README.md"},
        {"All pages": "docs/index.md"},
        {"עברית": entries("docs/he/*.md")},
        {"How it works": entries("docs/*.md")},
        {"How to": entries("docs/howto/*.md")},
        {"Reference": entries("docs/reference/*.md")},
        {"Parts": [{title(target / name): name} for name in parts]},
        {"Decisions": [{"All decisions": "docs/decisions/README.md"}, *entries("docs/decisions/*.md")]},
        {"Contributing": "CONTRIBUTING.md"},
        {"Changelog": "CHANGELOG.md"},
    ]


def title(page: Path) -> str:
    found = re.search(r"^# +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1].replace("`", "") if found else page.stem
