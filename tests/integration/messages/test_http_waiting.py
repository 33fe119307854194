"""A message that must wait says why and until when, and goes out then."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from support.message_plane import MessagePlane, message_plane
from support.messages import PHONE, UNPACED
from support.servers import StoreServer
from support.waiting import wait_until
from wa_orchestrator.clock import ManualClock

EVENING = 1_780_340_400_000  # 2026-06-01 19:00 UTC, 22:00 in Jerusalem


async def waiting_for(plane: MessagePlane, message_id: str, code: str) -> str | None:
    """Until when, once it gives this reason."""

    async def says_so() -> bool:
        found = (await plane.story(message_id))["waitingFor"]
        return found is not None and found["code"] == code

    await wait_until(says_so)
    until: str | None = (await plane.story(message_id))["waitingFor"]["until"]
    return until


def move_to(clock: ManualClock, moment: str | None) -> None:
    assert moment is not None
    clock.advance(seconds=datetime.fromisoformat(moment).timestamp() - clock.now_ms() / 1000 + 0.001)


async def test_while_its_session_is_down_it_waits_and_goes_when_it_is_back(tmp_path: Path, valkey: StoreServer) -> None:
    clock = ManualClock(EVENING)
    async with message_plane(tmp_path, valkey, clock=clock) as plane:
        session = await plane.connected()
        await plane.worker_event(session, "DISCONNECTED", {"reason": "connection_lost", "code": 428})
        first = await plane.send(sessionId=session, text="one")
        second = await plane.send(sessionId=session, text="two")
        await waiting_for(plane, first["messageId"], "SESSION_NOT_CONNECTED")
        assert await plane.claim(session, wait_ms=0) == []
        clock.advance(seconds=30)
        await plane.connect(session)
        for sent in (first, second):
            (message,) = await plane.claim(session)
            assert message["messageId"] == sent["messageId"]
            await plane.ack(session, message)


async def test_no_time_is_promised_until_somebody_starts_its_session(tmp_path: Path, valkey: StoreServer) -> None:
    async with message_plane(tmp_path, valkey, clock=ManualClock(EVENING)) as plane:
        session = await plane.connected()
        assert (await plane.send(sessionId=session))["estimatedSendAt"] is not None
        assert (await plane.send(phone=PHONE))["estimatedSendAt"] is not None
        assert (await plane.send())["estimatedSendAt"] is not None
        await plane.good("POST", f"/api/sessions/{session}/stop")
        sent = await plane.send(sessionId=session)
        assert sent["estimatedSendAt"] is None
        assert (await plane.send(phone=PHONE))["estimatedSendAt"] is None
        assert (await plane.send())["estimatedSendAt"] is None, "there is no other session that could send it"
        await waiting_for(plane, sent["messageId"], "SESSION_NOT_CONNECTED")
        told = (await plane.story(sent["messageId"]))["waitingFor"]
        assert (told["until"], told["message"]) == (None, "Its session is stopped. Start the session, and it goes out.")
        await plane.good("POST", f"/api/sessions/{session}/start")
        assert (await plane.send(sessionId=session))["estimatedSendAt"] is not None, "it reconnects by itself now"


async def test_no_time_is_promised_for_a_session_that_nobody_scanned(tmp_path: Path, valkey: StoreServer) -> None:
    async with message_plane(tmp_path, valkey, clock=ManualClock(EVENING)) as plane:
        await plane.add_proxies(1)
        session = await plane.provision()
        sent = await plane.send(sessionId=session)
        assert sent["estimatedSendAt"] is None
        await waiting_for(plane, sent["messageId"], "SESSION_NOT_LINKED")
        assert "Scan its code" in (await plane.story(sent["messageId"]))["waitingFor"]["message"]


async def test_out_of_hours_it_waits_for_the_morning(tmp_path: Path, valkey: StoreServer) -> None:
    clock = ManualClock(EVENING)
    async with message_plane(tmp_path, valkey, clock=clock) as plane:
        session = await plane.connected(limits={**UNPACED, "hours": "09:00-21:00"})
        sent = await plane.send(sessionId=session)
        until = await waiting_for(plane, sent["messageId"], "OUT_OF_HOURS")
        assert until == "2026-06-02T06:00:00.000+00:00"
        later = await plane.send(sessionId=session, to="972522222222")
        assert later["estimatedSendAt"] == until
        assert await plane.claim(session, wait_ms=50) == []
        move_to(clock, until)
        assert {m["messageId"] for m in [*await plane.claim(session), *await plane.claim(session, wait_ms=300)]} == {
            sent["messageId"],
            later["messageId"],
        }


async def test_over_the_day_limit_it_waits_for_the_next_opening(tmp_path: Path, valkey: StoreServer) -> None:
    clock = ManualClock(EVENING - 3 * 3_600_000)
    async with message_plane(tmp_path, valkey, clock=clock) as plane:
        session = await plane.connected(limits={**UNPACED, "daily": 1, "hours": "09:00-21:00"})
        await plane.send(sessionId=session)
        (message,) = await plane.claim(session)
        await plane.ack(session, message)
        sent = await plane.send(sessionId=session, defer=True)
        until = await waiting_for(plane, sent["messageId"], "DAILY_LIMIT")
        assert until == sent["estimatedSendAt"] == "2026-06-02T06:00:00.000+00:00"
        assert await plane.claim(session, wait_ms=50) == []
        move_to(clock, until)
        (message,) = await plane.claim(session)
        assert message["messageId"] == sent["messageId"]


async def test_under_whatsapps_own_limit_it_waits_until_that_ends(tmp_path: Path, valkey: StoreServer) -> None:
    clock = ManualClock(EVENING)
    async with message_plane(tmp_path, valkey, clock=clock) as plane:
        session = await plane.connected()
        sent = await plane.send(sessionId=session)
        (message,) = await plane.claim(session)
        answer = await plane.nack(session, message, "RATE_LIMITED", retryable=True, retryAfterMs=90_000)
        assert answer.json["state"] == "queued"
        until = await waiting_for(plane, sent["messageId"], "WHATSAPP_LIMIT")
        shown = await plane.good("GET", f"/api/anti-ban/sessions/{session}/limits")
        assert shown["blocked"] == {"until": until, "reason": "RATE_LIMITED"}
        move_to(clock, until)
        assert [m["messageId"] for m in await plane.claim(session)] == [sent["messageId"]]


async def test_a_planned_message_goes_at_its_time(tmp_path: Path, valkey: StoreServer) -> None:
    clock = ManualClock(EVENING)
    async with message_plane(tmp_path, valkey, clock=clock) as plane:
        session = await plane.connected()
        moment = "2026-06-03T08:30:00.000+00:00"
        sent = await plane.send(sessionId=session, scheduleAt=moment)
        assert sent["estimatedSendAt"] == moment
        assert await waiting_for(plane, sent["messageId"], "SCHEDULED") == moment
        move_to(clock, moment)
        assert [m["messageId"] for m in await plane.claim(session)] == [sent["messageId"]]
