"""The Python client with a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from support.control_plane import API_KEY
from support.message_plane import MessagePlane, message_plane
from support.messages import PHONE
from support.servers import StoreServer
from support.small_receiver import small_receiver
from support.waiting import wait_until
from wa_orchestrator_client import (
    AsyncClient,
    Client,
    Conflict,
    ConnectionFailed,
    Event,
    Invalid,
    NotFound,
    RetryPolicy,
    SignatureInvalid,
    Unauthorized,
    verify_webhook,
)
from wa_orchestrator_client.calls import ROUTES

TO = "972521111111"


@pytest.fixture
async def plane(tmp_path: Path, valkey: StoreServer) -> AsyncIterator[MessagePlane]:
    async with message_plane(tmp_path, valkey) as found:
        yield found


def _shape(path: str) -> str:
    return "/".join("{}" if part.startswith("{") else part for part in path.split("/"))


async def test_every_address_of_the_client_is_in_the_server_s_document(plane: MessagePlane) -> None:
    document = await plane.good("GET", "/openapi.json")
    there = {(method.upper(), _shape(path)) for path, methods in document["paths"].items() for method in methods}
    assert {name: route for name, route in ROUTES.items() if (route[0], _shape(route[1])) not in there} == {}


async def test_a_session_from_its_code_to_its_end(plane: MessagePlane) -> None:
    await plane.add_proxies(1)
    async with AsyncClient(plane.url, API_KEY) as wa:
        made = await wa.provision(session_id="shop", phone=PHONE, label="Shop", metadata={"customer": "7"})
        assert (made.session_id, made.status) == ("shop", "pending")
        assert made.proxy is not None
        with pytest.raises(NotFound) as missing:
            await wa.qr("shop")
        assert missing.value.code == "QR_NOT_READY"
        await plane.worker_event("shop", "QR_CODE", {"qr": "2@abc"})
        assert (await wa.qr("shop")).qr == "2@abc"
        assert (await wa.qr_picture("shop")).startswith(b"\x89PNG")
        await plane.connect("shop")
        session = await wa.wait_for_session("shop", "connected", timeout_s=10)
        assert (session.phone, session.label, session.metadata) == (PHONE, "Shop", {"customer": "7"})
        assert [s.session_id async for s in wa.sessions(status="connected")] == ["shop"]
        with pytest.raises(Conflict) as there:
            await wa.provision(session_id="shop")
        assert there.value.code == "SESSION_EXISTS"
        assert (await wa.stop("shop")).status == "stopped"
        assert (await wa.start("shop")).wanted == "running"
        assert (await wa.delete_session("shop", forget=True)).deleted


async def test_messages_one_and_many(plane: MessagePlane) -> None:
    session = await plane.connected()
    async with AsyncClient(plane.url, API_KEY) as wa:
        once = [await wa.send(TO, "hello", session_id=session, idempotency_key="k", reference="r1") for _ in range(2)]
        assert once[0].message_id == once[1].message_id
        assert [one.replayed for one in once] == [False, True]
        other = await wa.send(TO, "hello", session_id=session)
        assert other.message_id != once[0].message_id
        uploaded = await wa.upload(b"%PDF-1.4")
        await wa.send(TO, {"document": {"mediaId": uploaded.media_id, "fileName": "a.pdf"}}, session_id=session)
        result = await wa.send_bulk(
            [{"to": TO, "message": "a", "sessionId": session}, {"to": "nobody", "message": "b"}]
        )
        assert (result.accepted, result.rejected) == (1, 1)
        assert result.results[1].error is not None
        assert result.results[1].error["code"] == "INVALID_RECIPIENT"
        with pytest.raises(Invalid) as wrong:
            await wa.send("nobody", "x")
        assert (wrong.value.code, wrong.value.details["field"]) == ("INVALID_RECIPIENT", "to")
        for message in await plane.claim(session, most=1):
            await plane.ack(session, message)
        assert (await wa.wait_for_message(once[0].message_id, "sent", timeout_s=10)).reference == "r1"
        found = [m.message_id async for m in wa.messages(reference="r1")]
        assert found == [once[0].message_id]


async def test_events_resume_from_a_number_and_come_in_order(plane: MessagePlane) -> None:
    session = await plane.connected()
    async with AsyncClient(plane.url, API_KEY) as wa:
        # without a number: what happens from now on
        fresh = asyncio.create_task(_first(wa.events(types=["message.*"]), 1))
        begun = await plane.store.journal.last_number()
        sent = await _sent(plane, wa, session, "one")
        await plane.worker_event(session, "PING", {})
        (event,) = await asyncio.wait_for(fresh, 15)
        assert (event.type, event.data["messageId"], event.session_id) == ("message.sent", sent, session)
        # from a number: what happened since, without asking twice
        second = await _sent(plane, wa, session, "two")
        again = await asyncio.wait_for(_first(wa.events(after=begun, types=["message.sent"]), 2), 15)
        assert [e.data["messageId"] for e in again] == [sent, second]
        assert again[0].number < again[1].number


async def _first(events: AsyncIterator[Event], count: int) -> list[Event]:
    found: list[Event] = []
    async for event in events:
        found.append(event)
        if len(found) == count:
            break
    return found


async def _sent(plane: MessagePlane, wa: AsyncClient, session: str, text: str) -> str:
    queued = await wa.send(TO, text, session_id=session)
    (message,) = await plane.claim(session)
    await plane.ack(session, message)
    return queued.message_id


async def test_a_webhook_is_believed_with_its_secret(tmp_path: Path, valkey: StoreServer) -> None:
    async with message_plane(tmp_path, valkey, WEBHOOK_ALLOW_PRIVATE="127.0.0.0/8") as plane:
        session = await plane.connected()
        with small_receiver() as receiver:
            wa = AsyncClient(plane.url, API_KEY)
            made = await wa.create_webhook(receiver.url, types=["message.*"], sessions=[session])
            assert made.secret
            assert [hook.id for hook in await wa.webhooks()] == [made.id]
            sent = await _sent(plane, wa, session, "one")
            await wait_until(lambda: receiver.posted, timeout_s=30)
            posted = receiver.posted[0]
            verify_webhook(posted.body, posted.headers, made.secret)
            with pytest.raises(SignatureInvalid):
                verify_webhook(posted.body + b" ", posted.headers, made.secret)
            assert posted.json["data"]["messageId"] == sent
            assert await wa.delete_webhook(made.id)
            await wa.close()


async def test_the_sync_client_does_the_same(plane: MessagePlane) -> None:
    session = await plane.connected()

    def use() -> tuple[str, str, list[str], int]:
        with Client(plane.url, API_KEY) as wa:
            queued = wa.send(TO, "hello", session_id=session)
            cancelled = wa.cancel(queued.message_id)
            event = next(iter(wa.events(after=0, session_id=session)))
            return queued.message_id, cancelled.status, [s.session_id for s in wa.sessions()], event.number

    message_id, status, sessions, number = await asyncio.to_thread(use)
    assert message_id.startswith("msg_")
    assert status == "cancelled"
    assert sessions == [session]
    assert number >= 1


async def test_a_broken_connection_sends_once(plane: MessagePlane) -> None:
    """The first answer is lost on its way; the client asks again with the same key."""
    session = await plane.connected()
    lost: list[str] = []

    class Losing(httpx.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            response = await super().handle_async_request(request)
            if not lost and request.method == "POST":
                await response.aread()
                lost.append(request.headers["idempotency-key"])
                raise httpx.ReadError("cut off", request=request)
            return response

    quick = RetryPolicy(first_wait_s=0.01)
    async with AsyncClient(plane.url, API_KEY, retry=quick, http=httpx.AsyncClient(transport=Losing())) as wa:
        queued = await wa.send(TO, "once", session_id=session)
        assert lost
        assert queued.replayed
        assert len([m async for m in wa.messages(to=TO)]) == 1


async def test_wrong_keys_and_absent_servers_are_told(plane: MessagePlane) -> None:
    async with AsyncClient(plane.url, "wrong") as wa:
        with pytest.raises(Unauthorized):
            await wa.session("a")
    async with AsyncClient("http://127.0.0.1:1", API_KEY, retry=RetryPolicy(tries=2, first_wait_s=0.01)) as wa:
        with pytest.raises(ConnectionFailed):
            await wa.session("a")
