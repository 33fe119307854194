"""Every way a proxy can fail, with a real SOCKS5 server, and the sentence the operator reads."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from support.listening import listening
from support.socks_server import SocksServer
from wa_orchestrator.model.proxy import ProxyAddress
from wa_orchestrator.proxies.probe import ProbeKind, ProbeResult, probe

USER, PASSWORD = "invented-user", "invented-päss:w@rd"
TARGET = "whatsapp.test:443"
TIMEOUT_S = 5.0


@pytest.fixture
async def target_port() -> AsyncIterator[int]:
    """Something to connect to: accepts and waits for the end."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with listening(serve) as port:
        yield port


@pytest.fixture
async def server(target_port: int) -> AsyncIterator[SocksServer]:
    names = {"whatsapp.test": ("127.0.0.1", target_port)}
    async with SocksServer(user=USER, password=PASSWORD, names=names) as running:
        yield running
        # a probe leaves nothing behind
        for _ in range(100):
            if not running.open_connections:
                break
            await asyncio.sleep(0.01)
        assert running.open_connections == 0


def address_of(server: SocksServer, *, user: str = USER, password: str = PASSWORD) -> ProxyAddress:
    return ProxyAddress(host=server.host, port=server.port, user=user, password=password)


async def ask(address: ProxyAddress, *, timeout_s: float = TIMEOUT_S, target: str = TARGET) -> ProbeResult:
    result = await probe(address, target=target, timeout_s=timeout_s)
    assert USER not in result.text
    assert PASSWORD not in result.text
    assert not address.password or address.password not in result.text
    assert "{" not in result.text
    return result


async def test_working_proxy_is_asked_for_the_target_by_name(server: SocksServer) -> None:
    result = await ask(address_of(server))
    assert (result.ok, result.kind, result.proxy_works) == (True, None, True)
    assert result.latency_ms is not None
    assert 0 <= result.latency_ms < TIMEOUT_S * 1000
    assert server.requests == [("whatsapp.test", 443, 3)]


async def test_proxy_without_login_works(target_port: int) -> None:
    async with SocksServer(names={"whatsapp.test": ("127.0.0.1", target_port)}) as server:
        assert (await ask(address_of(server, user="", password=""))).ok


async def test_login_with_an_empty_password_is_sent(target_port: int) -> None:
    async with SocksServer(user=USER, password="", names={"whatsapp.test": ("127.0.0.1", target_port)}) as server:
        assert (await ask(address_of(server, password=""))).ok


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_target_given_as_address_is_passed_on_as_address(server: SocksServer, host: str) -> None:
    server.fault = "reply-0" if host == "127.0.0.1" else "target-unreachable"
    port = server.names["whatsapp.test"][1]
    await ask(address_of(server), target=f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    assert server.requests == [(host, port, 1 if host == "127.0.0.1" else 4)]


async def test_wrong_password_is_named(server: SocksServer) -> None:
    result = await ask(address_of(server, password="invented-wrong"))
    assert result.kind is ProbeKind.AUTH
    assert result.text.startswith("The proxy refused the user name or password. ")
    assert not result.proxy_works


async def test_missing_login_is_told_from_a_wrong_one(server: SocksServer) -> None:
    result = await ask(address_of(server, user="", password=""))
    assert result.kind is ProbeKind.AUTH
    assert "demands a login, but none is given" in result.text


async def test_proxy_that_wants_another_login_method_is_named() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        writer.write(b"\x05\xff")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as other:
        place = ProxyAddress("127.0.0.1", other.sockets[0].getsockname()[1], USER, PASSWORD)
        result = await ask(place)
    assert result.kind is ProbeKind.AUTH
    assert "Ask its provider which login it wants" in result.text


async def test_closed_port_says_that_nothing_listens(server: SocksServer) -> None:
    await server.stop()
    result = await ask(address_of(server))
    assert result.kind is ProbeKind.REFUSED
    assert result.text.startswith(f"Nothing listens at 127.0.0.1:{server.port}.")
    await server.start()
    assert (await ask(address_of(server))).ok


async def test_closed_port_on_a_name_with_two_addresses_is_still_refused(server: SocksServer) -> None:
    await server.stop()
    result = await ask(replace(address_of(server), host="localhost"))
    assert result.kind is ProbeKind.REFUSED


async def test_unknown_host_name_is_named(server: SocksServer) -> None:
    result = await ask(replace(address_of(server), host="proxy.invalid"))
    assert result.kind is ProbeKind.UNREACHABLE
    assert "host name of the proxy proxy.invalid:" in result.text
    assert "is not known" in result.text


async def test_address_without_a_route_is_unreachable() -> None:
    # a broadcast-like address that the kernel refuses at once, whatever the machine's network looks like
    result = await ask(ProxyAddress("255.255.255.255", 1080), timeout_s=1)
    assert result.kind is ProbeKind.UNREACHABLE
    assert "255.255.255.255:1080" in result.text


async def test_connection_that_is_never_accepted_times_out() -> None:
    with socket.socket() as full, socket.socket() as first, socket.socket() as second:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        place = full.getsockname()
        for one in (first, second):  # fills the backlog, so the kernel drops what comes next
            one.setblocking(False)
            one.connect_ex(place)
        result = await ask(ProxyAddress("127.0.0.1", place[1]), timeout_s=0.3)
    assert result.kind is ProbeKind.TIMEOUT
    assert "was not accepted within 0.3 s" in result.text


@pytest.mark.parametrize(
    ("fault", "kind", "words", "proxy_works"),
    [
        ("hang", ProbeKind.TIMEOUT, "accepts connections but never answers (waited 0.3 s)", False),
        ("hang-after-auth", ProbeKind.TIMEOUT, "let us in, but did not connect to whatsapp.test:443", False),
        ("drop", ProbeKind.PROTOCOL, "accepts connections and closes them at once", False),
        ("not-socks", ProbeKind.PROTOCOL, "An HTTP server answers at", False),
        ("auth", ProbeKind.AUTH, "refused the user name or password", False),
        ("refuse-target", ProbeKind.REFUSED, "does not allow connections to whatsapp.test:443", False),
        ("reply-1", ProbeKind.REFUSED, "reports a general failure", False),
        ("reply-3", ProbeKind.TARGET, "its network has no way to whatsapp.test:443", True),
        ("target-unreachable", ProbeKind.TARGET, "works, but cannot reach whatsapp.test:443", True),
        ("reply-5", ProbeKind.TARGET, "works, but whatsapp.test:443 refused its connection", True),
        ("reply-6", ProbeKind.TARGET, "works, but its connection to whatsapp.test:443 took too long", True),
        ("reply-7", ProbeKind.PROTOCOL, "does not support ordinary connections", False),
        ("reply-8", ProbeKind.PROTOCOL, "does not look names up itself", False),
        ("reply-99", ProbeKind.PROTOCOL, "an answer that is not SOCKS5", False),
    ],
)
async def test_each_fault_has_its_own_kind_and_sentence(
    server: SocksServer, fault: str, kind: ProbeKind, words: str, proxy_works: bool
) -> None:
    server.fault = fault
    # a moment for the login to succeed, which goes before the silence
    timeout_s = {"hang": 0.3, "hang-after-auth": 1.0}.get(fault, TIMEOUT_S)
    result = await ask(address_of(server), timeout_s=timeout_s)
    assert (result.ok, result.kind, result.proxy_works) == (False, kind, proxy_works)
    assert words in result.text
    assert result.latency_ms is None


@pytest.mark.parametrize(
    ("answers", "kind", "words"),
    [
        ([b"SSH-2.0-x"], ProbeKind.PROTOCOL, "is no SOCKS5 proxy"),
        ([b"\x05\x02", b""], ProbeKind.PROTOCOL, "closed the connection on the login"),
        ([b"\x05\x00", b""], ProbeKind.PROTOCOL, "closed the connection when asked for whatsapp.test:443"),
        ([b"\x05\x00", b"\x04\x00"], ProbeKind.PROTOCOL, "an answer that is not SOCKS5"),
        ([b"\x05\x00", b"\x05\x00\x00\x09"], ProbeKind.PROTOCOL, "an answer that is not SOCKS5"),
        ([b"\x05\x00", b"\x05\x00\x00\x01\x7f"], ProbeKind.PROTOCOL, "closed the connection when asked for"),
        ([b"\x05\x00", b"\x05\x00\x00\x03\x01a\x00\x50"], None, "Works"),
        ([b"\x05\x00", b"\x05\x00\x00\x04" + b"\x00" * 18], None, "Works"),
    ],
)
async def test_odd_answers_never_break_the_probe(answers: list[bytes], kind: ProbeKind | None, words: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(1024)
            writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as odd:
        result = await ask(ProxyAddress("127.0.0.1", odd.sockets[0].getsockname()[1], USER, PASSWORD))
    assert result.kind == kind
    assert words in result.text


async def test_target_that_is_no_name_is_not_the_proxys_fault(server: SocksServer) -> None:
    result = await ask(address_of(server), target="a..b:443")
    assert result.kind is ProbeKind.TARGET


async def test_time_is_bounded_over_all_steps_together() -> None:
    ended = asyncio.Event()

    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (b"\x05\x02", b"\x01\x00"):  # to the greeting, to the login; each alone is in time
            await asyncio.sleep(0.6)
            writer.write(answer)
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    async with await asyncio.start_server(slowly, "127.0.0.1", 0) as slow:
        result = await ask(ProxyAddress("127.0.0.1", slow.sockets[0].getsockname()[1], USER, PASSWORD), timeout_s=1)
        await asyncio.wait_for(ended.wait(), 15)
    assert result.kind is ProbeKind.TIMEOUT
    assert "did not answer the login within 1 s" in result.text


async def test_cancelled_probe_closes_its_connection(server: SocksServer) -> None:
    server.fault = "hang"
    task = asyncio.create_task(probe(address_of(server), target=TARGET, timeout_s=60))
    while not server.open_connections:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
async def microsocks() -> AsyncIterator[ProxyAddress]:
    program = shutil.which("microsocks")
    if program is None:
        pytest.skip("microsocks is not installed")
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program, "-i", "127.0.0.1", "-p", str(port), "-u", USER, "-P", "invented",
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    address = ProxyAddress("127.0.0.1", port, USER, "invented")
    try:
        async with asyncio.timeout(10):
            while (await probe(address, target=f"127.0.0.1:{port}", timeout_s=2)).kind is ProbeKind.REFUSED:
                await asyncio.sleep(0.05)
        yield address
    finally:
        process.kill()
        await process.wait()


async def test_microsocks_lets_us_in_and_reaches_a_target_by_name(microsocks: ProxyAddress, target_port: int) -> None:
    result = await ask(microsocks, target=f"localhost:{target_port}")
    assert result.ok, result.text


async def test_microsocks_refuses_a_wrong_password(microsocks: ProxyAddress, target_port: int) -> None:
    result = await ask(replace(microsocks, password="invented-wrong"), target=f"localhost:{target_port}")
    assert result.kind is ProbeKind.AUTH


async def test_microsocks_tells_a_closed_target_from_its_own_failure(microsocks: ProxyAddress) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        result = await ask(microsocks, target=f"localhost:{unused.getsockname()[1]}")
    assert (result.kind, result.proxy_works) == (ProbeKind.TARGET, True)


async def test_microsocks_demands_a_login(microsocks: ProxyAddress, target_port: int) -> None:
    result = await ask(replace(microsocks, user="", password=""), target=f"localhost:{target_port}")
    assert result.kind is ProbeKind.AUTH
    assert "none is given" in result.text
