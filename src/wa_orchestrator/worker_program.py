"""How the worker program is started on this machine: which Node, which bundle, which flags."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.settings import Settings

_PACKAGE = Path(__file__).resolve().parent
# in the installed package, in a checkout (src/wa_orchestrator/../..), in an image
_PLACES = (_PACKAGE / "bundles", _PACKAGE.parent.parent)


@dataclass(frozen=True)
class Program:
    command: tuple[str, ...]
    env: dict[str, str]


def find_bundle(part: str) -> Path:
    """`worker` or `simulator`; raises a sentence when it was not built."""
    for place in _PLACES:
        for path in (place / part / "dist" / f"{part}.mjs", place / f"{part}.mjs"):
            if path.is_file():
                return path
    raise SettingsError(f"The {part} is not built. Run `make setup`, or `npm ci && npm run build -w {part}`.")


def find_node() -> str:
    beside = Path(sys.executable).parent / "node"
    node = str(beside) if os.access(beside, os.X_OK) else shutil.which("node")
    if not node:
        raise SettingsError("Node 20 or newer is needed for workers. Run `make setup`, or install Node.")
    return node


def worker_program(settings: Settings) -> Program:
    """WORKER_COMMAND if given, else the built bundle with the flags that keep it small."""
    env = {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}
    if settings.worker_command:
        try:
            return Program(command=tuple(shlex.split(settings.worker_command)), env=env)
        except ValueError:
            raise SettingsError("WORKER_COMMAND cannot be read. Check its quotes.") from None
    bundle = find_bundle("worker")
    flags = json.loads(bundle.with_name("worker.flags.json").read_text(encoding="utf-8"))
    return Program(command=(find_node(), *flags["nodeFlags"], str(bundle)), env={**env, **flags["env"]})
