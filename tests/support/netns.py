"""A network of its own for workers: two addresses that answer, and a rest of the world that swallows and shows.

    root namespace                      worker's namespace              "world" namespace
    control plane  198.18.n.1 ┐
    SOCKS proxy    198.18.n.2 ┴─ host end ═══ inside  198.18.n.3
                                              world0  203.0.113.2 ═════ far end (answers nothing)
                                              default routes, IPv4 and IPv6, lead to world0

A leak is not hidden by a missing route: it becomes a packet on world0 (or lo) and is counted. It still reaches nobody,
because the far end of world0 is in a namespace with no address and no other interface.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NAMESPACES = Path("/run/netns")
_FILES = Path("/etc/netns")  # `ip netns exec` shows <name>/hosts there as /etc/hosts, and so on
_NAMESERVER = "198.51.100.53"  # reserved for documentation: a look-up goes to world0 like everything else
_QUICK_RESOLVER = f"nameserver {_NAMESERVER}\noptions timeout:1 attempts:1\n"


def why_no_namespaces() -> str:
    """A sentence, or nothing when namespaces can be made here."""
    if os.geteuid() != 0:
        return "network namespaces can only be made by root"
    if shutil.which("ip") is None:
        return "the command `ip` is missing (Debian: apt-get install iproute2)"
    name = f"wa{os.getpid()}try"
    tried = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return f"network namespaces are not allowed here: {tried.stderr.strip()}" if tried.returncode else ""


@dataclass(frozen=True)
class WorkerNetwork:
    """Names and addresses of one such network."""

    name: str
    control_address: str
    proxy_address: str
    worker_address: str

    @property
    def path(self) -> Path:
        return _NAMESPACES / self.name

    @property
    def nameserver(self) -> str:
        return _NAMESERVER

    def command(self, *words: str) -> list[str]:
        """Runs `words` inside. `ip` replaces itself by the program: same process, same open files."""
        return ["ip", "netns", "exec", self.name, *words]

    def holds(self, pid: int) -> bool:
        """Whether a process is inside."""
        return Path(f"/proc/{pid}/ns/net").stat().st_ino == self.path.stat().st_ino

    def sent_by(self, interface: str) -> int:
        """The kernel's own counter of packets sent by an interface inside."""
        shown = _ip("-n", self.name, "-j", "-s", "link", "show", "dev", interface)
        return int(json.loads(shown)[0]["stats64"]["tx"]["packets"])


@contextlib.contextmanager
def worker_network(number: int) -> Iterator[WorkerNetwork]:
    """`number` keeps networks that exist at the same time apart, 0 to 3."""
    # the benchmark range 198.18.0.0/15 is nobody's; test runs beside each other differ by their pid
    third = (os.getpid() * 4 + number) % 250
    network = WorkerNetwork(
        name=f"wa{os.getpid()}n{number}",
        control_address=f"198.18.{third}.1",
        proxy_address=f"198.18.{third}.2",
        worker_address=f"198.18.{third}.3",
    )
    world = f"{network.name}w"
    with contextlib.ExitStack() as undo:
        for name in (network.name, world):
            _ip("netns", "add", name)
            undo.callback(_ip, "netns", "del", name)
        undo.callback(_remove_files, network)
        _write_files(network)
        _connect_to_host(network, undo)
        _connect_to_world(network, world)
        yield network


def _write_files(network: WorkerNetwork) -> None:
    """No name is known inside, not even localhost: every look-up has to ask the name server, which is seen."""
    folder = _FILES / network.name
    folder.mkdir(parents=True)
    (folder / "hosts").write_text("# empty on purpose\n")
    (folder / "resolv.conf").write_text(_QUICK_RESOLVER)
    (folder / "nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")


def _remove_files(network: WorkerNetwork) -> None:
    shutil.rmtree(_FILES / network.name, ignore_errors=True)
    with contextlib.suppress(OSError):  # somebody else's are in it
        _FILES.rmdir()


def _connect_to_host(network: WorkerNetwork, undo: contextlib.ExitStack) -> None:
    host_end = f"{network.name}h"
    inside = ["-n", network.name]
    _ip("link", "add", host_end, "type", "veth", "peer", "name", "inside", "netns", network.name)
    # a killed process may leave sockets that keep the namespace, and so the pair, alive for a while
    undo.callback(_ip, "link", "del", host_end)
    _no_ipv6(host_end)
    _no_ipv6("inside", network.name)
    for address in (network.control_address, network.proxy_address):
        _ip("addr", "add", f"{address}/29", "dev", host_end)
    _ip("link", "set", host_end, "up")
    _ip(*inside, "addr", "add", f"{network.worker_address}/29", "dev", "inside")
    _ip(*inside, "link", "set", "inside", "up")
    # neighbours are known for ever: no ARP is needed, so any ARP is somebody looking for another address
    for address in (network.control_address, network.proxy_address):
        _ip(*inside, "neigh", "replace", address, "lladdr", _mac(host_end), "dev", "inside", "nud", "permanent")
    _ip("neigh", "replace", network.worker_address, "lladdr", _mac("inside", *inside), "dev", host_end,
        "nud", "permanent")  # fmt: skip


def _connect_to_world(network: WorkerNetwork, world: str) -> None:
    inside = ["-n", network.name]
    _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "link", "add", "world0", "type", "veth", "peer", "name", "far", "netns", world)
    _no_ipv6("far", world)
    _ip("-n", world, "link", "set", "far", "up")
    # no address of its own making and no router asked for: whatever is sent, a program sent it
    _set("ipv6/conf/world0/router_solicitations", "0", network.name)
    _set("ipv6/conf/world0/addr_gen_mode", "1", network.name)
    # without ARP a packet is sent at once instead of waiting for a neighbour who never answers
    _ip(*inside, "link", "set", "world0", "arp", "off", "up")
    _ip(*inside, "addr", "add", "203.0.113.2/24", "dev", "world0")
    _ip(*inside, "addr", "add", "2001:db8::2/64", "dev", "world0", "nodad")
    _ip(*inside, "route", "add", "default", "dev", "world0")
    _ip(*inside, "-6", "route", "add", "default", "dev", "world0")


def _mac(interface: str, *where: str) -> str:
    return str(json.loads(_ip(*where, "-j", "link", "show", "dev", interface))[0]["address"])


def _no_ipv6(interface: str, namespace: str | None = None) -> None:
    _set(f"ipv6/conf/{interface}/disable_ipv6", "1", namespace)


def _set(name: str, value: str, namespace: str | None = None) -> None:
    """/proc/sys/net shows the namespace of whoever opens it."""
    words = ["sh", "-c", 'echo "$1" >"$2"', "sh", value, f"/proc/sys/net/{name}"]
    _run(["ip", "netns", "exec", namespace, *words] if namespace else words)


def _ip(*words: str) -> str:
    return _run(["ip", *words])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise OSError(f"`{' '.join(command)}`: {done.stderr.strip()}")
    return done.stdout
