"""The suppression list, consent and recipients over HTTP, and opt-out words in workers' events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.control_plane import ControlPlane, control_plane, now_ms
from support.servers import StoreServer
from support.waiting import wait_until

ANNA, BERT, PHONE = "972521111111", "972522222222", "972500000001"
LID = "123456789012@lid"
IMPORT, TEXT = "/api/v1/suppression/import", {"Content-Type": "text/plain"}


async def connected(plane: ControlPlane, session: str, phone: str = PHONE) -> str:
    await plane.add_proxies(1)
    await plane.provision(sessionId=session)
    answer = await plane.event(session, "CONNECTED", {"phoneNumber": phone}, seq=1, stream="s")
    assert answer.status == 200
    return session


async def hears(plane: ControlPlane, session: str, text: str, *, seq: int, **more: Any) -> None:
    data = {"waMessageId": f"WA{seq}", "from": ANNA, "chat": f"{ANNA}@s.whatsapp.net", "isGroup": False, "kind": "text",
            "text": text, "timestamp": now_ms(), **more}  # fmt: skip
    answer = await plane.event(session, "MESSAGE_RECEIVED", data, seq=seq, stream="s")
    assert answer.status == 200, answer.body


async def listed(plane: ControlPlane) -> list[str]:
    return [entry["phone"] for entry in (await plane.good("GET", "/api/v1/suppression"))["suppressed"]]


async def test_a_number_is_put_on_the_list_and_taken_off(plane: ControlPlane) -> None:
    session = await connected(plane, "a")
    body = {"to": ANNA, "text": "x", "sessionId": session}
    waiting = await plane.good("POST", "/api/v1/send", body, status=202)
    body_ = {"phone": f"+{ANNA}", "reason": "complaint", "note": "called"}
    added = await plane.good("POST", "/api/v1/suppression", body_, status=201)
    assert (added["phone"], added["added"], added["cancelled"], added["by"]) == (ANNA, True, 1, "api")
    again = await plane.good("POST", "/api/v1/suppression", {"phone": ANNA, "reason": "legal"})
    assert (again["added"], again["reason"]) == (False, "complaint")
    message = await plane.good("GET", f"/api/v1/messages/{waiting['messageId']}")
    assert (message["status"], message["reason"]) == ("cancelled", "RECIPIENT_OPTED_OUT")
    refused = await plane.call("POST", "/api/v1/send", body)
    assert (refused.status, refused.code) == (403, "RECIPIENT_OPTED_OUT")
    bulk = await plane.call("POST", "/api/v1/send/bulk", [body, {**body, "to": BERT}])
    assert [result["queued"] for result in bulk.json["results"]] == [False, True]
    assert bulk.json["results"][0]["error"]["code"] == "RECIPIENT_OPTED_OUT"
    assert (await plane.good("GET", f"/api/v1/suppression/{ANNA}"))["note"] == "called"
    sender = await plane.good("POST", "/api/v1/keys", {"name": "shop", "rights": ["send"]}, status=201)
    seen = (await plane.call("GET", f"/api/v1/suppression/{ANNA}", key=sender["key"])).json
    assert (seen["reason"], seen["note"], seen["by"]) == ("complaint", None, None)
    await plane.good("DELETE", f"/api/v1/suppression/{ANNA}")
    missing = await plane.call("DELETE", f"/api/v1/suppression/{ANNA}")
    assert (missing.status, missing.code) == (404, "NOT_SUPPRESSED")
    assert (await plane.call("GET", f"/api/v1/suppression/{ANNA}")).code == "NOT_SUPPRESSED"
    await plane.good("POST", "/api/v1/send", body, status=202)


async def test_lists_are_imported_and_exported(plane: ControlPlane) -> None:
    raw = f"\ufeff# opted out\n{ANNA}\n+972 52-222-2222, wrong number\n\nnot a number\n{ANNA}; again\n{LID}\tlegal\n"
    got = await plane.call("POST", IMPORT, raw=raw.encode(), headers=TEXT)
    assert got.status == 200, got.body
    assert (got.json["added"], got.json["known"]) == (3, 1)
    assert [error["line"] for error in got.json["errors"]] == [5]
    assert sorted(await listed(plane)) == sorted([ANNA, BERT, LID])
    export = await plane.call("GET", "/api/v1/suppression/export")
    lines = dict(line.split("\t")[:2] for line in export.body.decode().splitlines())
    assert lines == {ANNA: "imported", BERT: "wrong number", LID: "legal"}
    back = await plane.call("POST", IMPORT, raw=export.body, headers=TEXT)
    assert (back.json["added"], back.json["known"], back.json["errors"]) == (0, 3, [])
    page = await plane.good("GET", "/api/v1/suppression?limit=2&offset=2")
    assert (len(page["suppressed"]), page["total"]) == (1, 3)


async def test_bad_numbers_are_refused(plane: ControlPlane) -> None:
    for phone in ("", "abc", "123456-7890@g.us", "0501234567890123456789"):
        answer = await plane.call("POST", "/api/v1/suppression", {"phone": phone})
        assert answer.status == 422, phone
    for path in ("/api/v1/recipients/nobody", "/api/v1/suppression/12"):
        assert (await plane.call("GET", path)).code == "INVALID_RECIPIENT", path
    nothing = await plane.call("POST", IMPORT, raw=b"\xff\xfe", headers=TEXT)
    assert nothing.status == 422


async def test_consent_is_noted_and_a_recipient_explained(plane: ControlPlane) -> None:
    at = f"/api/v1/recipients/{ANNA}"
    fresh = await plane.good("GET", at)
    assert (fresh["maySend"], fresh["reasons"], fresh["consent"], fresh["lastContact"]) == (True, [], [], None)
    body = {"source": "web form", "at": "2026-01-02T03:04:05Z", "note": "campaign 7"}
    await plane.good("POST", f"{at}/consent", body, status=201)
    await plane.good("POST", f"{at}/consent", {"source": "phone call"}, status=201)
    late = await plane.call("POST", f"{at}/consent", {"source": "x", "at": now_ms() + 10**8})
    assert (late.status, late.field) == (422, "at")
    session = await connected(plane, "a")
    await hears(plane, session, "hello", seq=2)
    await hears(plane, session, "STOP", seq=3)
    known = await plane.good("GET", at)
    assert (known["maySend"], known["reasons"][0]["code"]) == (False, "RECIPIENT_OPTED_OUT")
    assert [note["source"] for note in known["consent"]] == ["phone call", "web form"]
    assert known["consent"][1]["by"] == "api"
    assert known["lastContact"]["sessionId"] == session
    assert known["suppressed"]["source"] == "word"


async def test_a_worker_event_with_the_word_opts_out_once_and_in_again(plane: ControlPlane) -> None:
    session = await connected(plane, "a")
    body = {"to": ANNA, "text": "x", "sessionId": session}
    await hears(plane, session, "please stop it, will you", seq=2)
    await hears(plane, session, "הסר", seq=3, isGroup=True, chat="123456789-987654321@g.us")
    await hears(plane, session, "stop", seq=4, kind="edit")
    assert await listed(plane) == []
    await hears(plane, session, "\u200fהָסֵר!\u200f", seq=5, fromLid=LID)
    assert await listed(plane) == [ANNA]
    for to in (ANNA, LID):
        assert (await plane.call("POST", "/api/v1/send", {**body, "to": to})).code == "RECIPIENT_OPTED_OUT"
    await hears(plane, session, "הסר", seq=5, fromLid=LID)  # delivered twice
    events = (await plane.good("GET", f"/api/sessions/{session}/events"))["events"]
    assert [e["data"]["phone"] for e in events if e["type"] == "recipient.opted_out"] == [ANNA]
    await hears(plane, session, "start", seq=6)
    assert await listed(plane) == []
    await plane.good("POST", "/api/v1/send", body, status=202)


async def test_the_answer_is_queued_for_the_session_that_heard_the_word(valkey: StoreServer, tmp_path: Path) -> None:
    async with control_plane(
        tmp_path / "data", REDIS_URL=valkey.url, OPT_OUT_REPLY="You are off the list.", OPT_OUT_WORDS="genug"
    ) as plane:
        await plane.store.connection.call("FLUSHALL")
        session = await connected(plane, "a")
        await hears(plane, session, "stop", seq=2)
        assert await listed(plane) == []
        await hears(plane, session, "Genug!", seq=3)
        assert await listed(plane) == [ANNA]

        async def answers() -> list[dict[str, Any]]:
            return list((await plane.good("GET", "/api/v1/messages"))["messages"])

        await wait_until(answers)
        [answer] = await answers()
        assert (answer["to"], answer["sessionId"]) == (f"{ANNA}@s.whatsapp.net", session)
        story = await plane.good("GET", f"/api/v1/messages/{answer['messageId']}")
        assert story["content"]["text"] == "You are off the list."
