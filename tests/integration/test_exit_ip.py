"""The address under which the world sees a proxy, asked through that proxy of a real web server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from support.control_plane import ControlPlane
from support.socks_server import SocksServer
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.model.proxy import ProxyAddress, ProxyStatus
from wa_orchestrator.proxies.exit_ip import address_in, exit_ip
from wa_orchestrator.proxies.pool import ProxyPool
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import Store

_TOLD = {"ip": "203.0.113.7"}


@pytest.fixture
async def page() -> AsyncIterator[int]:
    """Tells what it is told to tell; a real one would tell its visitor's address."""

    async def tell(_request: web.Request) -> web.Response:
        return web.Response(text=_TOLD["ip"] + "\n")

    app = web.Application()
    app.router.add_get("/ip", tell)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def test_it_is_asked_through_the_proxy_and_by_name(page: int) -> None:
    async with SocksServer(names={"ip.test": ("127.0.0.1", page)}) as proxy:
        address = ProxyAddress(proxy.host, proxy.port)
        assert await exit_ip(address, "http://ip.test/ip", timeout_s=5) == "203.0.113.7"
        assert [(host, port) for host, port, _ in proxy.requests] == [("ip.test", 80)]
        assert await exit_ip(address, "http://ip.test/elsewhere", timeout_s=5) is None
        proxy.fault = "refuse-target"
        assert await exit_ip(address, "http://ip.test/ip", timeout_s=5) is None


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("HTTP/1.1 200 OK\r\n\r\n203.0.113.7", "203.0.113.7"),
        ('HTTP/1.1 200 OK\r\n\r\n{"ip":"2001:db8::1"}', "2001:db8::1"),
        ("HTTP/1.1 200 OK\r\n\r\nabcdefg 999.1.1.1 203.0.113.9", "203.0.113.9"),
        ("HTTP/1.1 404 Not Found\r\n\r\n203.0.113.7", None),
        ("HTTP/1.1 200 OK\r\n\r\n", None),
        ("", None),
    ],
)
def test_the_first_address_of_a_good_answer_counts(answer: str, found: str | None) -> None:
    assert address_in(answer) == found


async def test_a_check_notes_it_once_an_hour_and_tells_when_it_changed(
    page: int, valkey_store: Store, clock: ManualClock
) -> None:
    store = valkey_store
    names = {"ip.test": ("127.0.0.1", page), "whatsapp.test": ("127.0.0.1", page)}
    async with SocksServer(names=names) as server:
        env = {"PROXY_EXIT_IP_URL": "http://ip.test/ip", "PROXY_CHECK_TARGET": "whatsapp.test:443"}
        nobody: object = None
        pool = ProxyPool(store=store, lifecycle=nobody, settings=load_settings(env), clock=clock)  # type: ignore[arg-type]
        address = ProxyAddress(server.host, server.port)
        await pool.add(address)
        _TOLD["ip"] = "203.0.113.7"
        proxy, _ = await pool.check(address.proxy_id)
        assert (proxy.exit_ip, proxy.status) == ("203.0.113.7", ProxyStatus.ACTIVE)
        _TOLD["ip"] = "203.0.113.8"
        proxy, _ = await pool.check(address.proxy_id)
        assert proxy.exit_ip == "203.0.113.7", "asked again within the hour"
        clock.advance(seconds=3600)
        proxy, _ = await pool.check(address.proxy_id)
        assert proxy.exit_ip == "203.0.113.8"
    told = [e for e in await store.journal.after(0, limit=50) if e.type == "proxy.exit_ip_changed"]
    assert [e.data for e in told] == [{"proxy": address.proxy_id, "was": "203.0.113.7", "now": "203.0.113.8"}]


@pytest.mark.parametrize("url", ["ip.example", "ftp://ip.example", "http://user:pass@ip.example/"])
def test_a_wrong_address_of_the_page_is_said_at_the_start(url: str) -> None:
    with pytest.raises(SettingsError, match="PROXY_EXIT_IP_URL"):
        load_settings({"PROXY_EXIT_IP_URL": url})


async def test_it_is_shown(plane: ControlPlane) -> None:
    (proxy,) = await plane.add_proxies(1)
    await plane.store.proxies.mark(proxy, ProxyStatus.ACTIVE, fields={"exitIp": "203.0.113.7"})
    found = await plane.call("GET", f"/api/v1/proxies/{proxy}")
    assert found.json["exitIp"] == "203.0.113.7"
