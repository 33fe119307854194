"""A trace id given at send goes with the message to its end."""

from __future__ import annotations

from support.control_plane import ControlPlane
from support.messages import UNPACED

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
PHONE = "972501234567"


async def test_a_trace_id_is_kept_and_told_in_every_event_of_the_message(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session_id = await plane.provision(phone=PHONE)
    await plane.good("PUT", f"/api/anti-ban/sessions/{session_id}/limits", UNPACED)
    await plane.event(session_id, "CONNECTED", {"phoneNumber": PHONE, "jid": f"{PHONE}@s.whatsapp.net"})
    body = {"to": "972521111111", "text": "hi", "sessionId": session_id}
    sent = await plane.call("POST", "/api/v1/send", body, headers={"traceparent": TRACE})
    message_id = sent.json["messageId"]
    assert (await plane.good("GET", f"/api/v1/messages/{message_id}"))["traceparent"] == TRACE
    path = f"/api/worker/sessions/{session_id}/outbox"
    polled = await plane.signed(f"{path}/claim", {"max": 1, "waitMs": 20_000}, session_id=session_id)
    (message,) = polled.json["messages"]
    ack = {"messageId": message_id, "token": message["lease"]["token"], "sentAt": 1}
    assert (await plane.signed(f"{path}/ack", ack, session_id=session_id)).status == 200
    events = (await plane.good("GET", f"/api/sessions/{session_id}/events"))["events"]
    (told,) = [event for event in events if event["type"] == "message.sent"]
    assert told["data"]["traceparent"] == TRACE


async def test_a_malformed_one_is_passed_over_and_none_is_made_up(plane: ControlPlane) -> None:
    await plane.add_proxies(1)
    session_id = await plane.provision(phone=PHONE)
    body = {"to": "972521111111", "text": "hi", "sessionId": session_id}
    for odd in (
        "",
        "nonsense",
        TRACE.upper(),
        TRACE + "0",
        TRACE.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
    ):
        answer = await plane.call("POST", "/api/v1/send", body, headers={"traceparent": odd})
        assert answer.status == 202, odd
        assert "traceparent" not in await plane.good("GET", f"/api/v1/messages/{answer.json['messageId']}")
