"""Counts every packet that leaves a network namespace, by destination: what was tried, whether or not it arrived."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ETH_ALL, _ETH_IPV4, _ETH_ARP, _ETH_IPV6 = 0x0003, 0x0800, 0x0806, 0x86DD
_OUTGOING = 4  # PACKET_OUTGOING of linux/if_packet.h
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_RCVBUFFORCE = 33
_CLONE_NEWNET = 0x40000000
_HEAD_BYTES = 128  # addresses and ports are within the first 60; nothing else of a packet is looked at
_PROTOCOLS = {1: "icmp", 2: "igmp", 6: "tcp", 17: "udp", 58: "icmp6"}


@dataclass(frozen=True, order=True)
class Packet:
    """Where a packet was sent."""

    interface: str
    protocol: str
    address: str
    port: int | None = None

    def __str__(self) -> str:
        return f"{self.protocol} {self.address}{f':{self.port}' if self.port else ''} by {self.interface}"


class PacketCount:
    """All outgoing packets of one namespace since it was made, loopback included."""

    def __init__(self, namespace: Path, *, allowed: set[tuple[str, int]] | None = None) -> None:
        self.allowed_places = allowed or set()
        self._socket = _packet_socket(namespace)
        self._seen: Counter[Packet] = Counter()
        self._lost = 0
        self._lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        self._reader = threading.Thread(target=self._read, name="packet count", daemon=True)
        self._reader.start()

    def seen(self) -> Counter[Packet]:
        """Everything up to this moment."""
        with self._lock:
            self._drain()
            statistics = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
            self._lost += int(struct.unpack("II", statistics)[1])  # reading it sets it back to 0
            assert self._lost == 0, f"{self._lost} packets were not looked at: the count proves nothing"
            return self._seen.copy()

    def allowed(self) -> int:
        return sum(count for packet, count in self.seen().items() if self._is_allowed(packet))

    def others(self) -> dict[Packet, int]:
        """What went elsewhere."""
        return {packet: count for packet, count in sorted(self.seen().items()) if not self._is_allowed(packet)}

    def told(self) -> str:
        """For the output of a test."""
        return "".join(f"  {count:6} × {packet}\n" for packet, count in sorted(self.seen().items()))

    def close(self) -> None:
        os.write(self._wake_write, b"x")
        self._reader.join(timeout=10)
        self._socket.close()
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _is_allowed(self, packet: Packet) -> bool:
        return packet.protocol == "tcp" and (packet.address, packet.port) in self.allowed_places

    def _read(self) -> None:
        while True:
            ready, _, _ = select.select([self._socket.fileno(), self._wake_read], [], [])
            if self._wake_read in ready:
                return
            with self._lock:
                self._drain()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                head, (interface, ethertype, direction, *_) = self._socket.recvfrom(_HEAD_BYTES)
                if direction == _OUTGOING:
                    self._seen[destination_of(head, ethertype=ethertype, interface=interface)] += 1


@contextlib.contextmanager
def counting(namespace: Path, *, allowed: set[tuple[str, int]] | None = None) -> Iterator[PacketCount]:
    count = PacketCount(namespace, allowed=allowed)
    try:
        yield count
    finally:
        count.close()


def destination_of(head: bytes, *, ethertype: int, interface: str) -> Packet:
    """Reads the first bytes of a packet, which begin with its network header."""
    if ethertype == _ETH_ARP and len(head) >= 28:
        return Packet(interface, "arp", socket.inet_ntoa(head[24:28]))
    if ethertype == _ETH_IPV4 and len(head) >= 20:
        begin = (head[0] & 0x0F) * 4
        is_first = struct.unpack_from("!H", head, 6)[0] & 0x1FFF == 0  # later fragments carry no port
        return _transport(head, begin if is_first else len(head), number=head[9], interface=interface,
                          address=socket.inet_ntoa(head[16:20]))  # fmt: skip
    if ethertype == _ETH_IPV6 and len(head) >= 40:
        address = socket.inet_ntop(socket.AF_INET6, head[24:40])
        return _transport(head, 40, number=head[6], interface=interface, address=f"[{address}]")
    return Packet(interface, f"ethertype {ethertype:#06x}", "?")


def _transport(head: bytes, begin: int, *, number: int, interface: str, address: str) -> Packet:
    protocol = _PROTOCOLS.get(number, f"protocol {number}")
    has_port = protocol in {"tcp", "udp"} and len(head) >= begin + 4
    port = int(struct.unpack_from("!H", head, begin + 2)[0]) if has_port else None
    return Packet(interface, protocol, address, port)


def _packet_socket(namespace: Path) -> socket.socket:
    """A socket belongs to the namespace of the thread that made it, for ever; the thread is not needed any more."""
    made: list[socket.socket | OSError] = []

    def make() -> None:
        try:
            enter(namespace)
            made.append(socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_ALL)))
        except OSError as error:
            made.append(error)

    thread = threading.Thread(target=make, name="makes a packet socket")
    thread.start()
    thread.join()
    (result,) = made
    if isinstance(result, OSError):
        raise result
    result.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 32 << 20)  # seconds of traffic while the test is busy
    result.setblocking(False)
    return result


def enter(namespace: Path) -> None:
    """Moves the calling thread, and only it, into a network namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(fd, _CLONE_NEWNET) != 0:
            error = ctypes.get_errno()
            raise OSError(error, f"setns: {os.strerror(error)}")
    finally:
        os.close(fd)
