"""The journal by number: what follows, what is missing, and a poll that waits."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp
import pytest

from support.control_plane import API_KEY, ControlPlane
from support.waiting import wait_until
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.events.keeper import JournalKeeper
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import Store


async def events(plane: ControlPlane, query: str) -> Any:
    return await plane.good("GET", f"/api/v1/events{query}")


async def cut(plane: ControlPlane, first_kept: int) -> None:
    await plane.store.connection.call("XTRIM", "events:journal", "MINID", f"{first_kept}-0")


async def test_pages_follow_one_another_without_a_gap(plane: ControlPlane) -> None:
    await plane.add_proxies(25)
    last = await plane.store.journal.last_number()
    numbers: list[int] = []
    after = 0
    while True:
        page = await events(plane, f"?after={after}&limit=7")
        assert "gap" not in page
        if not page["events"]:
            break
        numbers += [event["number"] for event in page["events"]]
        after = page["last"]
    assert numbers == list(range(1, last + 1))
    assert (page["last"], page["oldest"]) == (last, 1)


async def test_types_and_sessions_are_chosen_and_the_place_goes_on(plane: ControlPlane) -> None:
    await plane.add_proxies(2)
    await plane.provision(sessionId="a")
    await plane.provision(sessionId="b")
    last = await plane.store.journal.last_number()
    page = await events(plane, "?after=0&types=session.*,proxy.bad&session=b")
    assert [(e["type"], e["sessionId"]) for e in page["events"]] == [("session.created", "b")]
    assert page["last"] == last, "how far was looked"
    answer = await plane.call("GET", "/api/v1/events?types=sesion.*")
    assert (answer.status, answer.field) == (422, "types")
    for bad in ("after=-1", "after=x", "limit=0", "limit=1001", "waitMs=60001"):
        assert (await plane.call("GET", f"/api/v1/events?{bad}")).status == 422


async def test_numbers_that_are_no_longer_kept_are_told(plane: ControlPlane) -> None:
    await plane.add_proxies(20)
    last = await plane.store.journal.last_number()
    await cut(plane, 11)
    page = await events(plane, "?after=3&limit=5")
    assert page["gap"] == {"from": 4, "to": 10}
    assert (page["oldest"], [e["number"] for e in page["events"]]) == (11, [11, 12, 13, 14, 15])
    assert "gap" not in await events(plane, "?after=10")
    assert "gap" not in await events(plane, "?limit=5"), "who names no number misses nothing"
    await cut(plane, last + 1)
    page = await events(plane, "?after=15")
    assert (page["events"], page["gap"], page["last"]) == ([], {"from": 16, "to": last}, last)


async def test_numbers_that_began_anew_are_told(plane: ControlPlane) -> None:
    last = await plane.store.journal.last_number()
    page = await events(plane, f"?after={last + 1000}")
    assert page["gap"] == {"from": last + 1001, "to": None, "restarted": True}
    assert page["last"] == last


async def test_a_poll_waits_for_what_it_asked_for(plane: ControlPlane) -> None:
    last = await plane.store.journal.last_number()
    waiting = asyncio.create_task(events(plane, f"?after={last}&types=session.created&waitMs=20000"))
    await plane.add_proxies(2)
    await asyncio.sleep(0.05)
    assert not waiting.done(), "others do not end it"
    await plane.provision(sessionId="a")
    page = await asyncio.wait_for(waiting, 5)
    assert [e["type"] for e in page["events"]] == ["session.created"]


async def test_a_poll_ends_when_its_time_is_over(plane: ControlPlane) -> None:
    last = await plane.store.journal.last_number()
    began = time.monotonic()
    page = await events(plane, f"?after={last}&types=session.created&waitMs=300")
    assert page["events"] == []
    assert 0.29 <= time.monotonic() - began < 5


async def test_waiting_polls_hold_no_connection_to_the_store(plane: ControlPlane) -> None:
    async def clients() -> int:
        return int((await plane.store.connection.client.info("clients"))["connected_clients"])

    last, before = await plane.store.journal.last_number(), await clients()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, headers={"X-Api-Key": API_KEY}) as http:
        url = f"{plane.url}/api/v1/events?after={last}&waitMs=20000"

        async def poll() -> Any:
            async with http.get(url) as answer:
                return await answer.json()

        polls = [asyncio.create_task(poll()) for _ in range(100)]
        await wait_until(lambda: sum(not p.done() for p in polls) == 100)
        await asyncio.sleep(0.3)
        assert await clients() < before + 20
        await plane.add_proxies(1)
        pages = await asyncio.wait_for(asyncio.gather(*polls), 10)
    assert {page["events"][0]["type"] for page in pages} == {"proxy.added"}


@pytest.mark.parametrize("how", ["websocket", "sse"])
async def test_streams_tell_a_gap_before_what_follows(plane: ControlPlane, how: str) -> None:
    await plane.add_proxies(10)
    await cut(plane, 6)
    got: list[dict[str, Any]] = []
    if how == "websocket":
        async with plane.http.ws_connect(f"{plane.url}/ws?after=2", headers={"X-Api-Key": API_KEY}) as socket:
            assert (await socket.receive_json())["type"] == "hello"
            got = [await asyncio.wait_for(socket.receive_json(), 5) for _ in range(2)]
    else:
        url = f"{plane.url}/api/v1/events/stream?after=2&sessionId=nobody"
        async with plane.http.get(url, headers={"X-Api-Key": API_KEY}) as answer:
            while not got:
                line = await asyncio.wait_for(answer.content.readline(), 5)
                if line.startswith(b"data: "):
                    got.append(json.loads(line[6:]))
    assert got[0]["type"] == "journal.gap"
    assert got[0]["data"] == {"from": 3, "to": 5}
    assert got[0]["number"] == 5, "a browser resumes behind it"
    assert how == "sse" or got[1]["number"] == 6


async def test_the_types_are_listed(plane: ControlPlane) -> None:
    listed = {one["type"]: one for one in (await plane.good("GET", "/api/v1/events/types"))["types"]}
    assert listed["message.sent"]["data"]["messageId"]


# how long it is kept -------------------------------------------------------------------------------------------------
async def _note(store: Store, count: int) -> None:
    for _ in range(count):
        await store.operations.note("backup.created", {})


def _keeper(store: Store, clock: ManualClock, **environ: str) -> JournalKeeper:
    settings = load_settings({"JOURNAL_LENGTH": "1000", "WEBHOOK_BACKLOG": "2000", **environ})
    return JournalKeeper(store=store, settings=settings, clock=clock)


async def _oldest(store: Store) -> int:
    return (await store.journal.page(0, limit=1)).oldest


async def test_the_journal_is_cut_by_length_and_age(store: Store, clock: ManualClock) -> None:
    keeper = _keeper(store, clock, JOURNAL_KEEP_DAYS="2")
    await asyncio.gather(*(_note(store, 50) for _ in range(30)))
    await keeper.run_once()
    assert 301 <= await _oldest(store) <= 501, "1,000 newest, and what shares a node with them"
    clock.advance(seconds=3 * 24 * 3600)
    await asyncio.gather(*(_note(store, 50) for _ in range(4)))
    await keeper.run_once()
    assert 1401 <= await _oldest(store) <= 1501, "older than two days, whatever the length"
    assert await store.journal.last_number() == 1700
    assert await keeper.run_once() == 0


async def test_the_journal_waits_for_a_webhook_that_is_behind_but_not_for_ever(
    store: Store, clock: ManualClock
) -> None:
    from wa_orchestrator.model.webhook import Webhook

    keeper = _keeper(store, clock)
    await store.webhooks.create(Webhook(webhook_id="wh_1", url="https://a.example/", enabled=True))
    await asyncio.gather(*(_note(store, 60) for _ in range(30)))
    await keeper.run_once()
    assert await _oldest(store) == 1, "1,800 wait for it"
    await asyncio.gather(*(_note(store, 60) for _ in range(10)))
    await keeper.run_once()
    assert 201 <= await _oldest(store) <= 402, "but not more than 2,000"
    await store.webhooks.change("wh_1", {"enabled": False})
    await keeper.run_once()
    assert await _oldest(store) >= 1300, "one that is switched off holds nothing"
