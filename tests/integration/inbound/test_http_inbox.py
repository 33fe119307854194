"""Conversations and received files over HTTP, with a whole control plane and the test as the worker."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.control_plane import WEBHOOK_SECRET, Answer, ControlPlane, control_plane, now_ms
from support.servers import StoreServer
from support.waiting import wait_until
from wa_orchestrator.inbound.files import InboundFiles
from wa_orchestrator.inbound.retention import InboundRetention
from wa_orchestrator.store import Store
from wa_orchestrator.worker_api.signature import session_secret, sign

ANNA = "972521111111"
LID = "1234567@lid"
MEDIA = "in_" + "0a" * 12
PICTURE = os.urandom(5_000)


@pytest.fixture
async def session(plane: ControlPlane) -> str:
    await plane.add_proxies(1)
    session_id = await plane.provision()
    await plane.event(session_id, "CONNECTED", {"phoneNumber": "972500000001", "jid": "972500000001:1@s.whatsapp.net"})
    return session_id


async def tell(plane: ControlPlane, session_id: str, wa: str, **more: Any) -> Answer:
    data = {
        "waMessageId": wa, "from": ANNA, "fromLid": LID, "chat": f"{ANNA}@s.whatsapp.net", "isGroup": False,
        "pushName": "Anna", "kind": "text", "timestamp": now_ms(), "offline": False, **more,
    }  # fmt: skip
    return await plane.event(session_id, "MESSAGE_RECEIVED", data)


async def upload(plane: ControlPlane, session_id: str, body: bytes, *, media_id: str = MEDIA, **wrong: Any) -> Answer:
    """As the worker does it; `wrong` replaces what it announces or signs."""
    path = f"/api/worker/sessions/{session_id}/inbound/{media_id}"
    sha256 = wrong.get("sha256", hashlib.sha256(body).hexdigest())
    when = str(wrong.get("stamp", now_ms()))
    words = f"PUT {wrong.get('path', path)}\n{wrong.get('size', len(body))}\n{sha256}".encode()
    secret = session_secret(WEBHOOK_SECRET, wrong.get("signed_for", session_id))
    headers = {
        "Content-Type": "application/octet-stream",
        "X-Content-Sha256": sha256,
        "X-Webhook-Timestamp": when,
        "X-Webhook-Signature": sign(secret, when, words),
    }
    return await plane.call(wrong.get("method", "PUT"), path, raw=body, headers=headers, key=None)


def media(state: str = "pending", **more: Any) -> dict[str, Any]:
    return {
        "kind": "image",
        "mimetype": "image/png",
        "sizeBytes": len(PICTURE),
        "state": state,
        "mediaId": MEDIA,
        **more,
    }


async def ready(plane: ControlPlane, session_id: str, **more: Any) -> Answer:
    data = {"mediaId": MEDIA, "waMessageId": "3A01", "chat": ANNA, "kind": "image", "mimetype": "image/png",
            "sizeBytes": len(PICTURE), "sha256": hashlib.sha256(PICTURE).hexdigest(), **more}  # fmt: skip
    return await plane.event(session_id, "MEDIA_READY", data)


async def test_an_inbox_lists_chats_with_their_last_message(plane: ControlPlane, session: str) -> None:
    await tell(plane, session, "3A01", text="first")
    await tell(plane, session, "3A02", text="second", replyTo={"waMessageId": "3A01", "text": "first"})
    found = await plane.good("GET", f"/api/v1/sessions/{session}/conversations")
    (conversation,) = found["conversations"]
    assert found["nextCursor"] is None
    assert (conversation["phone"], conversation["lid"], conversation["name"], conversation["unread"]) == (
        ANNA, LID, "Anna", 2,
    )  # fmt: skip
    assert conversation["lastMessage"]["text"] == "second"
    for chat in (ANNA, f"%2B{ANNA}", f"{ANNA}@s.whatsapp.net", LID):
        page = await plane.good("GET", f"/api/sessions/{session}/conversations/{chat}/messages")
        assert [m["text"] for m in page["messages"]] == ["second", "first"], chat
    assert page["messages"][0]["replyTo"] == {"waMessageId": "3A01", "text": "first"}
    older = await plane.good("GET", f"/api/v1/sessions/{session}/conversations/{ANNA}/messages?before=3A02&limit=1")
    assert [m["id"] for m in older["messages"]] == ["3A01"]
    assert older["nextBefore"] == "3A01"
    last = await plane.good("GET", f"/api/v1/sessions/{session}/conversations/{ANNA}/messages?before=3A01")
    assert last["messages"] == []


async def test_a_repeated_event_is_one_message(plane: ControlPlane, session: str) -> None:
    data = {"waMessageId": "3A01", "from": ANNA, "text": "once", "timestamp": now_ms()}
    answers = [await plane.event(session, "MESSAGE_RECEIVED", data, seq=5, stream="s") for _ in range(3)]
    assert [a.json["duplicate"] for a in answers] == [False, True, True]
    found = await plane.good("GET", f"/api/v1/sessions/{session}/conversations")
    assert found["conversations"][0]["unread"] == 1


async def test_marking_as_read_tells_the_worker(plane: ControlPlane, session: str) -> None:
    for n in range(3):
        await tell(plane, session, f"3A0{n}", text="x")
    answer = await plane.good("POST", f"/api/v1/sessions/{session}/conversations/{ANNA}/read")
    assert answer == {"chat": ANNA, "unread": 0}
    (command,) = await plane.store.commands.waiting(session)
    assert command["name"] == "mark_read"
    assert command["args"]["chat"] == f"{ANNA}@s.whatsapp.net"
    assert sorted(command["args"]["waMessageIds"]) == ["3A00", "3A01", "3A02"]
    await plane.good("POST", f"/api/v1/sessions/{session}/conversations/{ANNA}/read")
    assert len(await plane.store.commands.waiting(session)) == 1, "there was nothing left to tell"


async def test_what_is_not_there(plane: ControlPlane, session: str) -> None:
    for path, status, code in (
        (f"{session}/conversations/972529999999/messages", 404, "CONVERSATION_NOT_FOUND"),
        (f"{session}/conversations/nobody/messages", 422, "INVALID_RECIPIENT"),
        (f"{session}/conversations?limit=0", 422, "INVALID_BODY"),
        (f"{session}/media/{MEDIA}", 404, "INBOUND_MEDIA_NOT_FOUND"),
        (f"{session}/media/..%2f..%2fapi_key", 404, "NOT_FOUND"),
        ("nobody/conversations", 404, "SESSION_NOT_FOUND"),
        (f"nobody/conversations/{ANNA}/messages", 404, "SESSION_NOT_FOUND"),
        (f"nobody/media/{MEDIA}", 404, "SESSION_NOT_FOUND"),
    ):
        answer = await plane.call("GET", f"/api/v1/sessions/{path}")
        assert (answer.status, answer.code) == (status, code), path


async def test_a_file_goes_from_the_worker_to_whoever_asks(plane: ControlPlane, session: str) -> None:
    url = f"/api/v1/sessions/{session}/media/{MEDIA}"
    await tell(plane, session, "3A01", kind="image", media=media())
    assert (await plane.call("GET", url)).code == "MEDIA_PENDING"
    assert (await upload(plane, session, PICTURE)).json == {"ok": True, "sizeBytes": len(PICTURE)}
    assert (await plane.call("GET", url)).code == "MEDIA_PENDING", "known once its event came, in its turn"
    assert (await ready(plane, session)).status == 200
    answer = await plane.call("GET", url)
    assert answer.body == PICTURE
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    page = await plane.good("GET", f"/api/v1/sessions/{session}/conversations/{ANNA}/messages")
    assert page["messages"][0]["media"]["url"] == url
    file = plane.server.settings.inbound_media_path / session / MEDIA
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert (await upload(plane, session, PICTURE)).status == 200, "sent again after a crash"
    file.unlink()
    assert (await plane.call("GET", url)).code == "MEDIA_LOST"


async def test_a_stranger_may_not_choose_how_a_file_is_shown(plane: ControlPlane, session: str) -> None:
    name = '../../<script>"\r\nSet-Cookie: a=b.html'
    await tell(plane, session, "3A01", kind="document", media=media(kind="document"))
    await upload(plane, session, b"<script>alert(1)</script>")
    await ready(plane, session, mimetype="text/html", fileName=name)
    answer = await plane.call("GET", f"/api/v1/sessions/{session}/media/{MEDIA}")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert "set-cookie" not in answer.headers
    assert answer.headers["content-disposition"].startswith("attachment")
    assert ".." not in answer.headers["content-disposition"]


async def test_a_failed_file_says_why(plane: ControlPlane, session: str) -> None:
    await tell(plane, session, "3A01", kind="image", media=media())
    failed = {"mediaId": MEDIA, "error": {"code": "EXPIRED", "message": "WhatsApp no longer has the file"}}
    await plane.event(session, "MEDIA_FAILED", failed)
    answer = await plane.call("GET", f"/api/v1/sessions/{session}/media/{MEDIA}")
    assert (answer.status, answer.code) == (410, "MEDIA_LOST")
    assert answer.json["error"]["details"] == {"reason": "EXPIRED"}


async def test_only_what_the_worker_signed_is_kept(plane: ControlPlane, session: str) -> None:
    elsewhere = f"/api/worker/sessions/{session}/inbound/in_{'ff' * 12}"
    wrongs: list[tuple[dict[str, Any], int, str]] = [
        ({"signed_for": "worker_99"}, 401, "INVALID_SIGNATURE"),
        ({"path": elsewhere}, 401, "INVALID_SIGNATURE"),
        ({"size": 1}, 401, "INVALID_SIGNATURE"),
        ({"stamp": 1_000_000_000_000}, 401, "INVALID_SIGNATURE"),
        ({"sha256": hashlib.sha256(b"other").hexdigest()}, 422, "INVALID_BODY"),
        ({"sha256": "nonsense"}, 422, "INVALID_BODY"),
        ({"method": "POST"}, 405, "METHOD_NOT_ALLOWED"),
    ]
    for wrong, status, code in wrongs:
        answer = await upload(plane, session, PICTURE, **wrong)
        assert (answer.status, answer.code) == (status, code), wrong
        assert _files(plane) == []


async def test_limits_and_switches(valkey_store: Store, valkey: StoreServer, tmp_path: Path) -> None:
    """Too large, no inbox, too many: one server with tight settings."""
    tight = {"INBOUND_MEDIA_MAX_BYTES": "400000", "INBOX_KEEP_DAYS": "0", "INBOUND_MEDIA_TOTAL_BYTES": str(1 << 20)}
    async with control_plane(tmp_path / "data", REDIS_URL=valkey.url, **tight) as plane:
        await plane.add_proxies(1)
        session = await plane.provision()
        answer = await upload(plane, session, os.urandom(400_001))
        assert (answer.status, answer.code) == (413, "TOO_LARGE")
        assert (await upload(plane, "worker_77", b"x")).code == "SESSION_NOT_FOUND"

        await tell(plane, session, "3A01", text="private")
        assert (await plane.call("GET", f"/api/v1/sessions/{session}/conversations")).code == "INBOX_OFF"
        assert await valkey_store.connection.call("KEYS", "inbox:*") == []

        for number in range(3):
            body = os.urandom(400_000)
            assert (await upload(plane, session, body, media_id=f"in_{number:024x}")).status == 200
        # the oldest goes at once, not at the next round
        await wait_until(lambda: len(_files(plane)) == 2)


async def test_files_of_a_deleted_session_go_and_those_of_others_stay(plane: ControlPlane, session: str) -> None:
    other = await plane.provision()
    for one in (session, other):
        assert (await upload(plane, one, PICTURE)).status == 200
    await plane.good("DELETE", f"/api/sessions/{session}")
    await InboundRetention(store=plane.store, files=plane.server.rooms.inbound_files).run_once()
    assert _files(plane) == [f"{other}/{MEDIA}"]
    # an empty store must not empty the folder
    await plane.store.connection.call("FLUSHALL")
    await InboundRetention(store=plane.store, files=plane.server.rooms.inbound_files).run_once()
    assert _files(plane) == [f"{other}/{MEDIA}"]


async def test_files_stay_within_age_and_room(tmp_path: Path) -> None:
    files = InboundFiles(tmp_path, max_bytes=1000, total_bytes=250, keep_days=1)

    async def save(number: int, *, age_s: float) -> None:
        body = os.urandom(100)
        media_id = f"in_{number:024x}"
        await files.save("worker_1", media_id, _once(body), sha256=hashlib.sha256(body).hexdigest())
        at = time.time() - age_s
        os.utime(tmp_path / "worker_1" / media_id, (at, at))

    await save(1, age_s=2 * 86_400)
    await save(2, age_s=300)
    assert not files.crowded.is_set()
    await save(3, age_s=200)
    assert files.crowded.is_set()
    await save(4, age_s=100)
    (tmp_path / "worker_1" / "in_cut_off.part").write_bytes(b"x")
    os.utime(tmp_path / "worker_1" / "in_cut_off.part", (1, 1))
    assert files.sweep().left_bytes == 200
    assert sorted(f.name for f in tmp_path.glob("*/*")) == [f"in_{3:024x}", f"in_{4:024x}"]


def _files(plane: ControlPlane) -> list[str]:
    folder = plane.server.settings.inbound_media_path
    return sorted(str(file.relative_to(folder)) for file in folder.glob("*/*"))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
