"""Installs the npm packages of the baselines, on demand and outside the product's own."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
_ROOT = HERE.parent.parent
_MADE = _ROOT / ".setup" / "benchmark-baselines"


def node_packages() -> Path:
    """The folder with `node_modules`: express, fastify, ioredis in the versions of the lock file."""
    lock = (HERE / "package-lock.json").read_bytes()
    mark = hashlib.sha256(lock).hexdigest()
    stamp = _MADE / "stamp"
    if stamp.is_file() and stamp.read_text(encoding="ascii") == mark:
        return _MADE
    _MADE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copyfile(HERE / name, _MADE / name)
    npm = Path(sys.executable).parent / "npm"
    subprocess.run(
        [str(npm) if npm.exists() else "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"],
        cwd=_MADE, check=True,
    )  # fmt: skip
    stamp.write_text(mark, encoding="ascii")
    return _MADE
