"""The egress relay between a worker and a real SOCKS5 proxy: it leads to the worker's own proxy or nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.listening import listening
from support.registry import reserve
from support.servers import StoreServer
from support.socks_server import SocksServer
from support.waiting import wait_until
from wa_orchestrator.model.proxy import ProxyAddress, parse_proxy
from wa_orchestrator.proxies.probe import ProbeKind, ProbeResult, probe
from wa_orchestrator.runners.egress import EgressRelay, PoolLookup
from wa_orchestrator.runners.egress_pass import Pass, checked_pass, relayed_proxy_url
from wa_orchestrator.store import Store

SECRET = "installation-secret"
SHOWN = Pass("worker_1", "px_0123456789ab")
TARGET = "whatsapp.test:443"


class Pool:
    """Where proxies are, as the store would say."""

    def __init__(self) -> None:
        self.places: dict[Pass, ProxyAddress] = {}

    async def __call__(self, shown: Pass) -> ProxyAddress | None:
        return self.places.get(shown)


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """Says everything back, and ends when the other side has ended."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async with listening(serve) as port:
        yield port


@pytest.fixture
async def proxy(echo: int) -> AsyncIterator[SocksServer]:
    async with SocksServer(
        user="u", password="proxy-password", names={"whatsapp.test": ("127.0.0.1", echo)}
    ) as running:
        yield running


@pytest.fixture
def pool(proxy: SocksServer) -> Pool:
    pool = Pool()
    pool.places[SHOWN] = ProxyAddress("127.0.0.1", proxy.port, "u", "proxy-password")
    return pool


@pytest.fixture
async def port(pool: Pool) -> AsyncIterator[int]:
    relay = EgressRelay(secret=SECRET, find_proxy=pool)
    yield await relay.open("127.0.0.1", 0)
    await relay.close()


def as_worker(port: int, shown: Pass = SHOWN, *, secret: str = SECRET) -> ProxyAddress:
    """What the worker is given as its PROXY_URL."""
    return parse_proxy(
        relayed_proxy_url(f"127.0.0.1:{port}", secret=secret, session_id=shown.session_id, proxy_id=shown.proxy_id)
    )


async def ask(address: ProxyAddress, *, timeout_s: float = 5.0) -> ProbeResult:
    return await probe(address, target=TARGET, timeout_s=timeout_s)


async def test_a_worker_reaches_whatsapp_through_its_own_proxy(port: int, proxy: SocksServer) -> None:
    assert (await ask(as_worker(port))).ok
    assert [(host, number) for host, number, _ in proxy.requests] == [("whatsapp.test", 443)]


async def test_bytes_pass_both_ways_unchanged_and_an_end_is_passed_on(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    shown = SHOWN.user.encode(), SHOWN.password(SECRET).encode()
    writer.write(b"\x05\x02\x00\x02")
    assert await reader.readexactly(2) == b"\x05\x02"
    writer.write(b"\x01" + b"".join(bytes([len(word)]) + word for word in shown))
    assert await reader.readexactly(2) == b"\x01\x00"
    writer.write(b"\x05\x01\x00\x03\x0dwhatsapp.test\x01\xbb")
    assert (await reader.readexactly(10))[:2] == b"\x05\x00"
    sent = bytes(range(256)) * 8192
    writer.write(sent)
    writer.write_eof()
    assert await reader.read(-1) == sent
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize(
    ("shown", "secret"),
    [
        (SHOWN, "another-secret"),
        (Pass("worker_2", SHOWN.proxy_id), SECRET),  # a true pass, but that session is not on this proxy
        (Pass("worker_1", "px_ffffffffffff"), SECRET),
    ],
)
async def test_a_forged_or_foreign_pass_leads_nowhere(port: int, proxy: SocksServer, shown: Pass, secret: str) -> None:
    result = await ask(as_worker(port, shown, secret=secret))
    assert result.kind is ProbeKind.AUTH
    assert proxy.connections == 0


async def test_without_a_pass_nothing_is_relayed(port: int, proxy: SocksServer) -> None:
    assert (await ask(ProxyAddress("127.0.0.1", port))).kind is ProbeKind.AUTH
    for greeting in (b"GET / HTTP/1.1\r\n\r\n", b"\x04\x01\x00\x50", b"\x05\x01\x00"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(greeting)
        assert len(await asyncio.wait_for(reader.read(-1), 15)) <= 2
        writer.close()
        await writer.wait_closed()
    assert proxy.connections == 0


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("auth", ProbeKind.AUTH), ("drop", ProbeKind.REFUSED), ("refuse-target", ProbeKind.REFUSED),
     ("target-unreachable", ProbeKind.TARGET), ("hang", ProbeKind.TIMEOUT)],
)  # fmt: skip
async def test_the_proxys_failures_look_the_same_through_the_relay(
    port: int, proxy: SocksServer, fault: str, kind: ProbeKind
) -> None:
    proxy.fault = fault
    result = await ask(as_worker(port), timeout_s=0.5 if fault == "hang" else 5.0)
    assert result.kind is kind, result.text


async def test_a_proxy_that_is_not_there_counts_as_the_proxys_fault(port: int, proxy: SocksServer) -> None:
    await proxy.stop()
    assert (await ask(as_worker(port))).kind is ProbeKind.REFUSED


async def test_one_session_cannot_take_all_connections(port: int, proxy: SocksServer, pool: Pool) -> None:
    proxy.fault = "hang"
    held = [asyncio.create_task(ask(as_worker(port), timeout_s=60)) for _ in range(64)]
    await wait_until(lambda: proxy.connections == 64)
    assert (await ask(as_worker(port), timeout_s=20)).kind is not ProbeKind.TIMEOUT
    other = Pass("worker_2", SHOWN.proxy_id)
    pool.places[other] = pool.places[SHOWN]
    proxy.fault = None
    assert (await ask(as_worker(port, other))).ok
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)


def test_a_pass_says_neither_the_secret_nor_fits_elsewhere() -> None:
    url = relayed_proxy_url("172.29.0.4:1080", secret=SECRET, session_id="worker_1", proxy_id="px_1")
    assert SECRET not in url
    assert checked_pass(SECRET, user="worker_1.px_1", password=Pass("worker_1", "px_1").password(SECRET))
    for user in ("worker_1.px_2", "worker_2.px_1", "worker_1", "", "."):
        assert checked_pass(SECRET, user=user, password=Pass("worker_1", "px_1").password(SECRET)) is None


async def test_the_store_decides_which_proxy_and_its_last_word_holds_while_it_is_away(valkey_store: Store) -> None:
    address = ProxyAddress("proxy.example", 1080, "u", "p")
    await valkey_store.proxies.add(address)
    made = await reserve(valkey_store)
    lookup = PoolLookup(valkey_store)
    shown = Pass(made.session_id, made.proxy_id)
    assert await lookup(shown) == address
    assert await lookup(Pass(made.session_id, "px_other")) is None
    assert await lookup(Pass("nobody", made.proxy_id)) is None


async def test_a_store_that_is_away_is_not_the_end(valkey: StoreServer, valkey_store: Store) -> None:
    address = ProxyAddress("proxy.example", 1080, "u", "p")
    await valkey_store.proxies.add(address)
    made = await reserve(valkey_store)
    lookup = PoolLookup(valkey_store)
    shown = Pass(made.session_id, made.proxy_id)
    assert await lookup(shown) == address
    lookup._store = Store("redis://127.0.0.1:1/0", valkey_store.sessions._clock)
    assert await lookup(shown) == address
    await lookup._store.close()
