"""A whole system whose workers live in a namespace of their own, for the no-leak proof."""

from __future__ import annotations

import base64
import contextlib
import json
import shlex
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.netns import WorkerNetwork, worker_network
from support.packets import PacketCount, counting
from support.system import Http, System, wait_for
from wa_orchestrator.settings import load_settings
from wa_orchestrator.worker_program import find_bundle, find_node, worker_program

PICTURE_HOST = "pictures.noleak.test"  # .test never exists in DNS; only the proxy's /etc/hosts knows it
PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class Place:
    """The system, the worker's network, and what left it since it was made."""

    system: System
    network: WorkerNetwork
    packets: PacketCount
    proxy_port: int
    picture_port: int

    def asked_of_proxy(self) -> list[dict[str, Any]]:
        (proxy,) = self.system.simulator.get("/stats")["proxies"]
        asked: list[dict[str, Any]] = proxy["hosts"]
        return asked


@contextlib.contextmanager
def open_place(folder: Path) -> Iterator[Place]:
    """Everything stopped and removed afterwards."""
    with contextlib.ExitStack() as stack:
        network = stack.enter_context(worker_network(0))
        packets = stack.enter_context(counting(network.path))
        simulator = stack.enter_context(_simulator(folder, proxy_address=network.proxy_address))
        picture_port = stack.enter_context(_pictures(folder / "pictures"))
        system = System(folder / "system", simulate=False, **_settings(network, simulator))
        system.simulator = Http(simulator["url"])
        stack.enter_context(system)
        proxy_port, control_port = (int(urlsplit(url).port or 0) for url in (simulator["proxies"][0], system.api.base))
        packets.allowed_places |= {(network.proxy_address, proxy_port), (network.control_address, control_port)}
        yield Place(system, network, packets, proxy_port, picture_port)


def _settings(network: WorkerNetwork, simulator: dict[str, Any]) -> dict[str, object]:
    place = urlsplit(simulator["websocketUrl"])
    return {
        "ORCH_HOST": network.control_address,
        "PROXY_URL_1": simulator["proxies"][0],
        "PROXY_TIMEOUT_MS": 2000,
        "PROXY_BAD_AFTER": 100,
        "PROXY_CHECK_TARGET": f"{place.hostname}:{place.port}",
        "WA_WEBSOCKET_URL": simulator["websocketUrl"],
        "WA_ROOT_PUBLIC_KEY": simulator["rootPublicKey"],
        "WA_CA_FILE": simulator["caFile"],
        # all the worker does by itself, within seconds instead of minutes
        "PING_INTERVAL_MS": 300,
        "PRESENCE_INTERVAL_MS": 300,
        "SELF_MESSAGE_INTERVAL_MS": 1000,
        "WORKER_COMMAND": _worker_command(network),
        "WORKER_ENV": "RECONNECT_BASE_MS=200 RECONNECT_MAX_MS=1000 ACK_TIMEOUT_MS=5000",
    }


def _worker_command(network: WorkerNetwork) -> str:
    """The real bundle with its own flags, inside the namespace."""
    program = worker_program(load_settings({}))
    flags = [f"{name}={value}" for name, value in program.env.items() if name not in {"PATH", "LANG"}]
    return shlex.join(network.command("env", *flags, *program.command))


@contextlib.contextmanager
def _simulator(folder: Path, *, proxy_address: str) -> Iterator[dict[str, Any]]:
    """On loopback of the root namespace, only its one proxy at an address that workers can reach.

    Its private /etc/hosts (a mount namespace) knows a name that nobody else knows.
    """
    hosts, ready_file = folder / "hosts", folder / "simulator.json"
    hosts.write_text(f"127.0.0.1 localhost {PICTURE_HOST}\n")
    own_hosts = 'mount --bind "$1" /etc/hosts && shift && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", own_hosts, "sh", str(hosts),
               find_node(), str(find_bundle("simulator")), "--state", str(folder / "simulator"),
               "--proxies", "1", "--proxy-host", proxy_address, "--ready-file", str(ready_file)]  # fmt: skip
    with (folder / "simulator.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for(lambda: ready_file.is_file() or process.poll() is not None, what="the simulator")
        assert process.poll() is None, (folder / "simulator.log").read_text()
        yield json.loads(ready_file.read_text())
    finally:
        process.terminate()
        process.wait(timeout=10)


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _pictures(folder: Path) -> Iterator[int]:
    """A web server on loopback of the root namespace: from inside it is behind the proxy only."""
    folder.mkdir()
    (folder / "picture.png").write_bytes(PICTURE)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
