"""The proof of the proof: whatever goes elsewhere from inside the namespace is seen, and seen as what it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.netns import WorkerNetwork
from support.packets import counting
from wa_orchestrator.worker_program import find_node

pytestmark = pytest.mark.netns

_ANYBODY, _ANYBODY_6 = "192.0.2.77", "2001:db8:77::1"
_PROXY_PORT, _CONTROL_PORT = 1080, 3001

_CONNECT = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as s:
    s.settimeout(0.2)
    s.connect_ex((sys.argv[1], int(sys.argv[2])))
"""
_DATAGRAM = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.sendto(b"x", (sys.argv[1], int(sys.argv[2])))
"""
_PING = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as s:
    s.sendto(bytes([8, 0, 0xF7, 0xFF, 0, 0, 0, 0]), (sys.argv[1], 0))
"""
_LOOK_UP = """
import socket, sys
try: socket.getaddrinfo(sys.argv[1], 443)
except socket.gaierror: pass
"""
_NODE_FETCH = "fetch(process.argv[1], {signal: AbortSignal.timeout(300)}).catch(() => process.exit(0))"
_NODE_RESOLVE = """
const resolver = new (require('dns').Resolver)({timeout: 200, tries: 1})
resolver.resolve4(process.argv[1], () => process.exit(0))
"""

# what is done, how, and the packet that must be seen: protocol, address, port, interface
LEAKS = {
    "a connection": ("python", _CONNECT, [_ANYBODY, "443"], ("tcp", _ANYBODY, 443, "world0")),
    "a connection by IPv6": ("python", _CONNECT, [_ANYBODY_6, "443"], ("tcp", f"[{_ANYBODY_6}]", 443, "world0")),
    "a datagram": ("python", _DATAGRAM, [_ANYBODY, "443"], ("udp", _ANYBODY, 443, "world0")),
    "a ping": ("python", _PING, [_ANYBODY], ("icmp", _ANYBODY, None, "world0")),
    "a look-up": ("python", _LOOK_UP, ["web.whatsapp.com"], ("udp", "NAMESERVER", 53, "world0")),
    "a look-up of localhost": ("python", _LOOK_UP, ["localhost"], ("udp", "NAMESERVER", 53, "world0")),
    "DNS by TCP": ("python", _CONNECT, [_ANYBODY, "53"], ("tcp", _ANYBODY, 53, "world0")),
    "loopback": ("python", _CONNECT, ["127.0.0.1", "8080"], ("tcp", "127.0.0.1", 8080, "lo")),
    "another port of the proxy": ("python", _CONNECT, ["PROXY", "8080"], ("tcp", "PROXY", 8080, "inside")),
    "the proxy's port elsewhere": ("python", _CONNECT, ["CONTROL", "1080"], ("tcp", "CONTROL", 1080, "inside")),
    "a neighbour": ("python", _CONNECT, ["NEIGHBOUR", "443"], ("arp", "NEIGHBOUR", None, "inside")),
    "fetch of Node": ("node", _NODE_FETCH, [f"http://{_ANYBODY}/"], ("tcp", _ANYBODY, 80, "world0")),
    "a look-up of Node": ("node", _NODE_RESOLVE, ["web.whatsapp.com"], ("udp", "NAMESERVER", 53, "world0")),
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_deliberate_leak_is_counted(network: WorkerNetwork, leak: str) -> None:
    language, code, arguments, (protocol, address, port, interface) = LEAKS[leak]
    names = {
        "NAMESERVER": network.nameserver,
        "PROXY": network.proxy_address,
        "CONTROL": network.control_address,
        "NEIGHBOUR": network.proxy_address.rpartition(".")[0] + ".6",
    }
    program = [find_node(), "-e", code] if language == "node" else [sys.executable, "-I", "-S", "-c", code]
    allowed = {(network.proxy_address, _PROXY_PORT), (network.control_address, _CONTROL_PORT)}
    with counting(network.path, allowed=allowed) as packets:
        assert packets.others() == {}
        _run_inside(network, [*program, *(names.get(word, word) for word in arguments)])
        seen = {(p.protocol, p.address, p.port, p.interface) for p in packets.others()}
    assert (protocol, names.get(address, address), port, interface) in seen


def test_the_two_allowed_places_are_counted_apart(network: WorkerNetwork) -> None:
    allowed = {(network.proxy_address, _PROXY_PORT), (network.control_address, _CONTROL_PORT)}
    with counting(network.path, allowed=allowed) as packets:
        for address, port in allowed:
            _run_inside(network, [sys.executable, "-I", "-S", "-c", _CONNECT, address, str(port)])
        assert packets.others() == {}
        assert packets.allowed() >= 2


def test_an_empty_namespace_is_silent(network: WorkerNetwork) -> None:
    """Else a leak could hide in what the kernel says by itself."""
    with counting(network.path) as packets:
        _run_inside(network, ["sleep", "1"])
        assert packets.seen() == {}
    assert network.sent_by("world0") == 0


def _run_inside(network: WorkerNetwork, command: list[str]) -> None:
    subprocess.run(network.command(*command), check=True, timeout=20, stdin=subprocess.DEVNULL)
