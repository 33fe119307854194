"""`/metrics` as Prometheus reads it: who may, what it says, and what it costs."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.control_plane import API_KEY, ControlPlane, control_plane
from support.messages import UNPACED
from support.servers import StoreServer
from support.servers import running_server as store_server
from support.waiting import wait_until
from wa_orchestrator.roles import running_dispatcher, running_gateway
from wa_orchestrator.settings import load_settings

TOKEN = "invented-metrics-token"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def parsed(text: str) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def scrape(plane: ControlPlane) -> Samples:
    answer = await plane.call("GET", "/metrics")
    assert answer.status == 200, answer.body
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return parsed(answer.body.decode())


def label(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


async def test_numbers_follow_what_happens(plane: ControlPlane) -> None:
    before = await scrape(plane)
    assert before[label("wa_store_up")] == 1
    assert before[label("wa_leader")] == 1
    assert before[label("wa_sessions", state="connected")] == 0
    await plane.add_proxies(2)
    session_id = await plane.provision(phone="972501234567")
    await plane.good("PUT", f"/api/anti-ban/sessions/{session_id}/limits", UNPACED)
    await plane.event(session_id, "CONNECTED", {"phoneNumber": "972501234567", "jid": "972501234567@s.whatsapp.net"})
    await plane.event(session_id, "PING", {"rssBytes": 61_000_000})
    await plane.good(
        "POST", "/api/v1/send", {"to": "972521111111", "message": "hi", "sessionId": session_id}, status=202
    )

    path = f"/api/worker/sessions/{session_id}/outbox/claim"
    polled = await plane.signed(path, {"max": 1, "waitMs": 10_000}, session_id=session_id)
    (message,) = polled.json["messages"]
    nack = {"messageId": message["messageId"], "token": message["lease"]["token"],
            "error": {"code": "NOT_ON_WHATSAPP"}, "retryable": False}  # fmt: skip
    await plane.signed(f"/api/worker/sessions/{session_id}/outbox/nack", nack, session_id=session_id)

    async def counted() -> bool:  # numbers of the store are up to a second old
        return label("wa_messages_failed_total", reason="NOT_ON_WHATSAPP") in await scrape(plane)

    await wait_until(counted)
    after = await scrape(plane)
    assert after[label("wa_messages_accepted_total")] == 1
    assert after[label("wa_messages_failed_total", reason="NOT_ON_WHATSAPP")] == 1
    assert after[label("wa_queue_messages", queue="dead")] == 1
    assert after[label("wa_queue_messages", queue="claimed")] == 0
    assert after[label("wa_sessions", state="connected")] == 1
    assert after[label("wa_worker_memory_sum_bytes")] == 61_000_000
    assert after[label("wa_proxy_slots_free")] == 7
    assert after[label("wa_journal_number")] > before[label("wa_journal_number")]
    for name in ("wa_dispatch_lateness_seconds_count", "wa_store_batch_seconds_count"):
        assert after[label(name)] > before[label(name)], name
    for key in (label("wa_worker_events_total", type="PING"), label("wa_http_requests_total", status="2xx")):
        assert after[key] > before.get(key, 0), key
    for service in ("reconciler", "watchdog", "dispatcher", "router", "message_housekeeping", "proxy_health"):
        assert after[label("wa_background_round_age_seconds", service=service)] < 60, service


async def test_event_loop_lag_is_measured_all_the_time(plane: ControlPlane) -> None:
    before = (await scrape(plane))[label("wa_event_loop_lag_seconds_count")]

    async def more() -> bool:
        return (await scrape(plane))[label("wa_event_loop_lag_seconds_count")] > before

    await wait_until(more)


async def test_waiting_polls_are_counted(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session_id = await plane.provision()
    path = f"/api/worker/sessions/{session_id}/outbox/claim"
    poll = asyncio.create_task(plane.signed(path, {"max": 1, "waitMs": 20_000}, session_id=session_id))

    async def waiting() -> bool:
        return (await scrape(plane))[label("wa_claims_waiting")] == 1

    await wait_until(waiting)
    poll.cancel()


# who may read -----------------------------------------------------------------------------------------------------
async def test_numbers_need_a_key(plane: ControlPlane) -> None:
    for key in (None, "", "wrong", TOKEN):
        answer = await plane.call("GET", "/metrics", key=key)
        assert (answer.status, answer.code) == (401, "UNAUTHORIZED"), key
    bearer = {"Authorization": f"Bearer {API_KEY}"}
    assert (await plane.call("GET", "/metrics", key=None, headers=bearer)).status == 200


async def test_the_scrapers_token_opens_the_numbers_and_nothing_else(valkey: StoreServer, tmp_path: Path) -> None:
    async with control_plane(tmp_path / "data", REDIS_URL=valkey.url, METRICS_TOKEN=TOKEN) as plane:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert (await plane.call("GET", "/metrics", key=None, headers=bearer)).status == 200
        assert (await plane.call("GET", "/api/sessions", key=None, headers=bearer)).status == 401
        for wrong in (TOKEN[:-1], TOKEN + "x", "", "é"):
            answer = await plane.call("GET", "/metrics", key=None, headers={"Authorization": f"Bearer {wrong}"})
            assert answer.status == 401, wrong


async def test_numbers_can_be_opened_and_name_nobody(valkey: StoreServer, tmp_path: Path) -> None:
    async with control_plane(tmp_path / "data", REDIS_URL=valkey.url, METRICS_OPEN="true") as plane:
        await plane.add_proxies(1)
        await plane.provision(phone="972501234567", sessionId="shop", label="Shop")
        answer = await plane.call("GET", "/metrics", key=None)
        assert answer.status == 200
        for secret in (b"shop", b"Shop", b"972501234567", b"pr0xy", API_KEY.encode()):
            assert secret not in answer.body


# roles alone, and a store that is away ------------------------------------------------------------------------------
@pytest.fixture
def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


async def read(http: aiohttp.ClientSession, url: str, token: str = TOKEN) -> tuple[int, str]:
    async with http.get(url, headers={"Authorization": f"Bearer {token}"}) as answer:
        return answer.status, await answer.text()


async def test_a_gateway_alone_has_numbers(valkey: StoreServer, tmp_path: Path) -> None:
    environ = {"REDIS_URL": valkey.url, "API_KEY": API_KEY, "ORCH_PORT": "0", "DATA_DIR": str(tmp_path)}
    async with running_gateway(load_settings(environ)) as gateway, aiohttp.ClientSession() as http:
        status, text = await read(http, f"{gateway.url}/metrics", API_KEY)
        assert status == 200
        assert 'role="gateway"' in text
        assert "wa_leader " not in text, "it does not lead"


async def test_a_dispatcher_alone_has_numbers_on_its_own_port(
    valkey: StoreServer, tmp_path: Path, free_port: int
) -> None:
    environ = {"REDIS_URL": valkey.url, "DATA_DIR": str(tmp_path), "METRICS_PORT": str(free_port),
               "METRICS_TOKEN": TOKEN}  # fmt: skip
    async with running_dispatcher(load_settings(environ)) as dispatcher, aiohttp.ClientSession() as http:
        assert dispatcher.url == f"http://127.0.0.1:{free_port}"
        status, text = await read(http, f"{dispatcher.url}/metrics")
        assert status == 200
        assert parsed(text)[label("wa_background_round_age_seconds", service="dispatcher")] < 60
        assert (await read(http, f"{dispatcher.url}/metrics", "wrong"))[0] == 401
        assert (await read(http, f"{dispatcher.url}/metrics", ""))[0] == 401, "no API key is known here: nobody has it"
        assert (await read(http, f"{dispatcher.url}/health"))[0] == 200
        assert (await read(http, f"{dispatcher.url}/ready"))[0] == 200
        assert (await read(http, f"{dispatcher.url}/api/sessions"))[0] == 404
        async with http.post(f"{dispatcher.url}/metrics") as refused:
            assert refused.status == 405


async def test_a_dispatcher_without_a_port_listens_nowhere(valkey: StoreServer, tmp_path: Path) -> None:
    environ = {"REDIS_URL": valkey.url, "DATA_DIR": str(tmp_path)}
    async with running_dispatcher(load_settings(environ)) as dispatcher:
        assert dispatcher.url is None


async def test_numbers_are_there_while_the_store_is_away(tmp_path: Path) -> None:
    with store_server("valkey", tmp_path / "store") as own_store:
        environ = {"REDIS_URL": own_store.url, "API_KEY": API_KEY, "ORCH_PORT": "0", "DATA_DIR": str(tmp_path)}
        async with running_gateway(load_settings(environ)) as gateway, aiohttp.ClientSession() as http:
            assert "wa_store_up 1.0" in (await read(http, f"{gateway.url}/metrics", API_KEY))[1]
            own_store.kill()

            async def away() -> bool:
                status, text = await read(http, f"{gateway.url}/metrics", API_KEY)
                assert status == 200
                return "wa_store_up 0.0" in text and "wa_sessions" not in text

            await wait_until(away)


async def test_many_scrapes_are_one_read_of_the_store(plane: ControlPlane) -> None:
    reads = 0
    original = plane.store.numbers.read

    async def counted() -> object:
        nonlocal reads
        reads += 1
        return await original()

    plane.store.numbers.read = counted
    await asyncio.gather(*(plane.call("GET", "/metrics" if n % 2 else "/health") for n in range(60)))
    assert 1 <= reads <= 3
