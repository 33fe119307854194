"""From the queue to Telegram, over real HTTP: in order, once, patient, and without a word of the token."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from support.alerts import CHAT, TOKEN, BotApi, bot_api
from support.control_plane import quick_settings
from support.waiting import wait_until
from wa_orchestrator.alerts.notice import Notice
from wa_orchestrator.alerts.sender import LEASE_MS, AlertSender
from wa_orchestrator.alerts.telegram import Telegram
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.store import Store, keys
from wa_orchestrator.store.alerts import OutgoingNotice


@pytest.fixture
async def api() -> AsyncIterator[BotApi]:
    async with bot_api() as running:
        yield running


def sender_of(store: Store, api: BotApi, folder: Path, **more: str) -> AlertSender:
    settings = quick_settings(folder, **{"TELEGRAM_BOT_TOKEN": TOKEN, "TELEGRAM_CHAT_ID": CHAT,
                                         "TELEGRAM_API_URL": api.url, **more})  # fmt: skip
    return AlertSender(store=store, settings=settings, telegram=Telegram(settings), wake=asyncio.Event())


@pytest.fixture
def sender(valkey_store: Store, api: BotApi, tmp_path: Path) -> AlertSender:
    return sender_of(valkey_store, api, tmp_path)


async def put(store: Store, *names: str) -> None:
    state = await store.alerts.load()
    notices = [Notice(at=1, state="told", kind="connected", severity="info", subjects=[f"session:{name}"], count=1)
               for name in names]  # fmt: skip
    outgoing = [OutgoingNotice(json=msgspec.json.encode(n).decode(), type="alert.raised", session_id="", data="{}",
                               send=True) for n in notices]  # fmt: skip
    assert await store.alerts.commit(version=state.version, position=0, written={}, dropped=[], notices=outgoing)


async def test_what_waits_is_sent_once_and_in_order(valkey_store: Store, sender: AlertSender, api: BotApi) -> None:
    for n in range(3):
        await put(valkey_store, f"worker_{n}")
        await sender.run_once()
    assert api.texts == [f"<b>✅ worker_{n} is connected</b>" for n in range(3)]
    assert api.calls[0]["chat_id"] == CHAT
    assert await sender.run_once() == 0
    assert (await valkey_store.alerts.channel()).waiting == 0


async def test_telegram_away_for_an_hour_holds_nothing_up_and_all_arrives_after(
    valkey_store: Store, sender: AlertSender, api: BotApi, clock: ManualClock
) -> None:
    api.down = True
    tries = 0
    for minute in range(60):
        await put(valkey_store, f"worker_{minute}")
        for _ in range(6):
            before = len(api.calls)
            async with asyncio.timeout(5):
                assert await sender.run_once() == 0
            tries += len(api.calls) - before
            clock.advance(seconds=10)
    assert tries < 90, "about once a minute"
    channel = await valkey_store.alerts.channel()
    assert (channel.waiting, channel.problem) == (60, "away")
    api.down = False
    clock.advance(seconds=61)
    assert await sender.run_once() == 60
    lines = "\n".join(api.texts).split("\n\n")
    assert [line for text in api.texts for line in text.split("\n\n")] == [
        f"<b>✅ worker_{n} is connected</b>" for n in range(60)
    ], lines
    assert len(api.texts) <= 4, "what waited together travels together"
    assert (await valkey_store.alerts.channel()).problem == ""


async def test_telegrams_own_waiting_time_is_kept(
    valkey_store: Store, sender: AlertSender, api: BotApi, clock: ManualClock
) -> None:
    api.answers = [(429, {"description": "Too Many Requests", "parameters": {"retry_after": 37}})]
    await put(valkey_store, "worker_1")
    assert await sender.run_once() == 0
    clock.advance(seconds=36)
    assert await sender.run_once() == 0
    assert len(api.calls) == 1, "not asked before"
    clock.advance(seconds=2)
    assert await sender.run_once() == 1
    assert (await valkey_store.alerts.channel()).problem == ""


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ((401, {"description": "Unauthorized"}), "token"),
        ((404, {"description": "Not Found"}), "token"),
        ((400, {"description": "Bad Request: chat not found"}), "chat"),
        ((403, {"description": "Forbidden: bot was kicked from the group chat"}), "chat"),
    ],
)
async def test_a_wrong_token_or_chat_is_a_problem_that_is_said_and_looked_at_again(
    valkey_store: Store, sender: AlertSender, api: BotApi, clock: ManualClock, answer: tuple[int, dict[str, object]],
    problem: str
) -> None:  # fmt: skip
    api.answers = [answer]
    await put(valkey_store, "worker_1")
    await sender.run_once()
    channel = await valkey_store.alerts.channel()
    assert (channel.problem, channel.problem_since, channel.waiting) == (problem, clock.now_ms(), 1)
    clock.advance(seconds=299)
    await sender.run_once()
    assert len(api.calls) == 1
    clock.advance(seconds=2)
    assert await sender.run_once() == 1
    assert (await valkey_store.alerts.channel()).problem == ""


async def test_after_a_restart_with_better_settings_it_is_tried_at_once(
    valkey_store: Store, api: BotApi, tmp_path: Path
) -> None:
    await put(valkey_store, "worker_1")
    assert await sender_of(valkey_store, api, tmp_path, TELEGRAM_CHAT_ID="nowhere").run_once() == 0
    assert (await valkey_store.alerts.channel()).problem == "chat"
    assert await sender_of(valkey_store, api, tmp_path).run_once() == 1


async def test_a_group_that_got_a_new_id_is_followed(valkey_store: Store, api: BotApi, tmp_path: Path) -> None:
    sender = sender_of(valkey_store, api, tmp_path, TELEGRAM_CHAT_ID="-55")
    moved = {"description": "Bad Request: group chat was upgraded", "parameters": {"migrate_to_chat_id": int(CHAT)}}
    api.answers = [(400, moved)]
    await put(valkey_store, "worker_1")
    assert await sender.run_once() == 1


async def test_what_telegram_cannot_read_is_sent_plain_and_what_it_never_takes_blocks_nothing(
    valkey_store: Store, sender: AlertSender, api: BotApi
) -> None:
    unreadable = (400, {"description": "Bad Request: can't parse entities"})
    api.answers = [unreadable]
    await put(valkey_store, "worker_1")
    await sender.run_once()
    assert api.texts == ["✅ worker_1 is connected"]
    api.answers = [unreadable, unreadable]
    await put(valkey_store, "worker_2")
    await sender.run_once()
    await put(valkey_store, "worker_3")
    await sender.run_once()
    assert api.texts[1:] == ["<b>✅ worker_3 is connected</b>"]


async def test_a_notice_of_an_unknown_kind_holds_nothing_up(
    valkey_store: Store, sender: AlertSender, api: BotApi
) -> None:
    for text in ('{"kind":"from_the_future"}', "no json"):
        await valkey_store.connection.call("RPUSH", keys.ALERTS_OUTBOX(), text)
    await sender.run_once()
    assert (api.texts, (await valkey_store.alerts.channel()).waiting) == ([], 0)
    await valkey_store.connection.call("RPUSH", keys.ALERTS_OUTBOX(), "no json")
    await put(valkey_store, "worker_1")
    await sender.run_once()
    assert api.texts == ["<b>✅ worker_1 is connected</b>"]


async def test_two_senders_never_write_the_same(
    valkey_store: Store, api: BotApi, tmp_path: Path, clock: ManualClock
) -> None:
    api.slow = asyncio.Event()
    await put(valkey_store, "worker_1")
    old, new = sender_of(valkey_store, api, tmp_path), sender_of(valkey_store, api, tmp_path)
    writing = asyncio.create_task(old.run_once())
    await wait_until(lambda: bool(api.texts))
    assert await new.run_once() == 0
    api.slow.set()
    assert await writing == 1
    assert await new.run_once() == 0
    assert len(api.texts) == 1


async def test_a_sender_killed_with_a_message_in_hand_is_followed_by_another(
    valkey_store: Store, api: BotApi, tmp_path: Path, clock: ManualClock
) -> None:
    api.slow = asyncio.Event()
    await put(valkey_store, "worker_1", "worker_2")
    writing = asyncio.create_task(sender_of(valkey_store, api, tmp_path).run_once())
    await wait_until(lambda: bool(api.texts))
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    api.slow.set()
    successor = sender_of(valkey_store, api, tmp_path)
    assert await successor.run_once() == 0, "the first may still be at it"
    clock.advance(seconds=LEASE_MS / 1000 + 1)
    assert await successor.run_once() == 2, "better twice than never"
    assert (await valkey_store.alerts.channel()).waiting == 0


async def test_the_token_is_in_no_log_whatever_goes_wrong(
    valkey_store: Store, api: BotApi, tmp_path: Path, clock: ManualClock
) -> None:
    written = io.StringIO()
    configure_logs(level="debug", as_json=True, stream=written)
    try:
        await put(valkey_store, "worker_1")
        for url in (api.url, "http://127.0.0.1:1", "http://name.invalid", f"{api.url}/elsewhere"):
            sender = sender_of(valkey_store, api, tmp_path, TELEGRAM_API_URL=url)
            api.down = url == api.url
            await sender.run_once()
            clock.advance(seconds=3600)
    finally:
        configure_logs()
    assert "telegram_away" in written.getvalue()
    assert "telegram_refuses_alerts" in written.getvalue()
    assert TOKEN not in written.getvalue()
    assert TOKEN.split(":")[1] not in written.getvalue()
