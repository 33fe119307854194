"""A worker that went mad, or was taken over: whatever it says, it harms nobody but itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.control_plane import now_ms
from support.fuzzed import PHONE, SESSION, Fuzzed
from support.strange import DEPTH, VALUES, changed, damaged, encoded, fuzz
from wa_orchestrator.worker_api.projector import EVENT_TYPES

NAMES = (
    "qr",
    "qrCode",
    "expiresInMs",
    "phoneNumber",
    "jid",
    "lid",
    "name",
    "fingerprint",
    "reason",
    "code",
    "isProxyError",
    "isLoggedOut",
    "willReconnect",
    "status",
    "error",
    "timestamp",
    "rssBytes",
    "lastReceivedAt",
    "connection",
    "messageId",
    "waMessageId",
    "from",
    "text",
    "media",
    "commandId",
    "ok",
    "result",
    "chat",
    "id",
    "pushName",
    "quoted",
)
OUTBOX = f"/api/worker/sessions/{SESSION}/outbox"
EXPECTED = {200, 400, 401, 404, 409, 410, 413, 422, 429}


def event(kind: Any, data: Any, **more: Any) -> dict[str, Any]:
    return {"sessionId": SESSION, "type": kind, "timestamp": now_ms(), "data": data, **more}


def test_events_take_no_harm(fuzzed: Fuzzed) -> None:
    @fuzz(160)
    @given(st.sampled_from(EVENT_TYPES), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5))
    def data(kind: str, found: dict[str, Any]) -> None:
        status, answer = fuzzed.as_worker("/api/webhook", encoded(event(kind, found)))
        assert status in EXPECTED, answer

    @fuzz(80)
    @given(changed(event("PING", {}), more=("seq", "stream")))
    def envelopes(found: dict[str, Any]) -> None:
        status, answer = fuzzed.as_worker("/webhook", encoded(found))
        assert status in EXPECTED, answer

    @fuzz(60)
    @given(damaged(encoded(event("CONNECTED", {"phoneNumber": PHONE}))))
    def raw_bytes(raw: bytes) -> None:
        assert fuzzed.as_worker("/api/webhook", raw)[0] in EXPECTED

    data()
    envelopes()
    raw_bytes()
    for raw in (DEPTH.encode(), encoded(event("PING", {})).replace(b"{}", DEPTH.encode()), b"", b"\xff" * 50):
        assert fuzzed.as_worker("/api/webhook", raw)[0] in EXPECTED
    assert fuzzed.system.session(SESSION)["sessionId"] == SESSION


def test_claims_acks_and_nacks_take_no_harm(fuzzed: Fuzzed) -> None:
    ack = {"messageId": "msg_" + "0" * 18, "token": 1, "sentAt": now_ms(), "waMessageId": "3EB0" + "0" * 18}
    nack = {"messageId": "msg_" + "0" * 18, "token": 1, "error": {"code": "X", "message": "y"}, "retryable": True}

    @fuzz(60)
    @given(changed({"max": 1, "waitMs": 0}, more=("connection",)))
    def claims(found: dict[str, Any]) -> None:
        found["waitMs"] = 0
        assert fuzzed.as_worker(f"{OUTBOX}/claim", encoded(found))[0] in EXPECTED

    @fuzz(80)
    @given(changed(ack, more=("repeated",)))
    def acks(found: dict[str, Any]) -> None:
        assert fuzzed.as_worker(f"{OUTBOX}/ack", encoded(found))[0] in EXPECTED - {200}

    @fuzz(80)
    @given(changed(nack, more=("retryAfterMs",)))
    def nacks(found: dict[str, Any]) -> None:
        assert fuzzed.as_worker(f"{OUTBOX}/nack", encoded(found))[0] in EXPECTED - {200}

    claims()
    acks()
    nacks()


def test_a_flood_of_large_events_stays_small_in_the_store(fuzzed: Fuzzed) -> None:
    def stored() -> int:
        with fuzzed.redis() as store:
            return int(store.info("memory")["used_memory"])

    before = stored()
    large = "x" * 900_000
    for number in range(20):
        for kind, found in (
            ("DISCONNECTED", {"reason": large, "code": 408}),
            ("COMMAND_RESULT", {"commandId": f"made-up-{number}", "ok": True, "result": large}),
            ("PING", {"connection": large}),
            ("MESSAGE_STATUS", {"waMessageId": large, "status": "delivered", "more": [large[:1000]] * 50}),
        ):
            assert fuzzed.as_worker("/api/webhook", encoded(event(kind, found)))[0] == 200
    assert stored() - before < 5_000_000, "80 events of nearly a megabyte each"
    with fuzzed.redis() as store:
        assert not list(store.scan_iter("command:result:made-up-*")), "nobody asked for these answers"
    assert len(fuzzed.system.session(SESSION).get("reason") or "") <= 2000


def test_strangers_without_the_secret_get_nothing(fuzzed: Fuzzed) -> None:
    """Signatures that look nearly right, and none at all."""
    body = encoded(event("DISCONNECTED", {"code": 401, "isLoggedOut": True}))
    before = fuzzed.system.events(SESSION)[0]["number"]

    @fuzz(60)
    @given(
        st.one_of(st.none(), st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=80)),
        st.one_of(st.none(), st.sampled_from([str(now_ms()), "0", "-1", "9" * 30, "1e3", "", "٣"])),
    )
    def forged(signature: str | None, stamp: str | None) -> None:
        headers = {"X-Api-Key": ""}
        if signature is not None:
            headers["X-Webhook-Signature"] = signature
        if stamp is not None:
            headers["X-Webhook-Timestamp"] = stamp.encode().decode("latin-1")
        assert fuzzed.call("POST", "/api/webhook", body, headers)[0] == 401

    forged()
    assert fuzzed.system.events(SESSION)[0]["number"] == before, "nothing was noted"
