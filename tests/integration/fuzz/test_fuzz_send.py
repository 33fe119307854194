"""Whatever is sent to `send` and `bulk`: an honest answer, and as many messages as were said to be accepted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from support.fuzzed import SESSION, Fuzzed
from support.strange import DEPTH, VALUES, changed, damaged, encoded, fuzz

GOOD: dict[str, Any] = {"to": "972521111111", "message": {"text": "hello"}, "sessionId": SESSION}
MORE = ("text", "phone", "from", "priority", "scheduleAt", "expiresAt", "defer", "reference", "idempotencyKey")
CONTENTS = (
    "text",
    "image",
    "video",
    "audio",
    "document",
    "sticker",
    "location",
    "contact",
    "reaction",
    "poll",
    "reply",
    "mentions",
    "caption",
    "viewOnce",
    "linkPreview",
)


def accepted_messages(fuzzed: Fuzzed) -> int:
    with fuzzed.redis() as store:
        return int(store.hget("stats:total", "accepted") or 0)


def send(fuzzed: Fuzzed, raw: bytes, **headers: str) -> bool:
    """True when it was accepted."""
    status, answer = fuzzed.call(
        "POST", "/api/v1/send", raw, {name.replace("_", "-"): v for name, v in headers.items()}
    )
    assert status in {0, 202, 400, 404, 409, 413, 422, 429}, (raw, answer)
    if status not in {0, 202}:
        assert answer["error"]["code"]
        assert len(answer["error"]["message"]) < 1000
    return status == 202


def test_send_takes_no_harm(fuzzed: Fuzzed) -> None:
    count = accepted_messages(fuzzed)

    @fuzz(150)
    @given(changed(GOOD, more=MORE))
    def fields(body: dict[str, Any]) -> None:
        nonlocal count
        count += send(fuzzed, encoded(body))

    @fuzz(150)
    @given(st.dictionaries(st.sampled_from(CONTENTS), VALUES, min_size=1, max_size=3))
    def contents(content: dict[str, Any]) -> None:
        nonlocal count
        count += send(fuzzed, encoded({**GOOD, "message": content}))

    @fuzz(100)
    @given(damaged(encoded(GOOD)))
    def raw_bytes(raw: bytes) -> None:
        nonlocal count
        count += send(fuzzed, raw)

    @fuzz(50)
    @given(st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=300))
    def keys(key: str) -> None:
        nonlocal count
        status, answer = fuzzed.call(
            "POST", "/api/v1/send", encoded(GOOD), {"Idempotency-Key": key.encode("latin-1").decode("latin-1").strip()}
        )
        assert status in {202, 400, 422}, answer
        count += status == 202

    fields()
    contents()
    raw_bytes()
    for raw in (
        DEPTH.encode(),
        b'{"message":' + DEPTH.encode() + b"}",
        b"",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"\x00" * 100,
    ):
        count += send(fuzzed, raw)
    assert accepted_messages(fuzzed) == count, "what was answered is what was stored"
    keys()


def test_bulk_says_for_each_item_what_became_of_it(fuzzed: Fuzzed) -> None:
    count = accepted_messages(fuzzed)
    items = st.lists(st.one_of(changed(GOOD, more=MORE), st.just(GOOD), VALUES), max_size=6)

    @fuzz(80)
    @given(items, st.sampled_from(["", "?spreadMinutes=5", "?spreadMinutes=-1", "?spreadMinutes=99999999", "?x=%00"]))
    def arrays(found: list[Any], query: str) -> None:
        nonlocal count
        status, answer = fuzzed.call("POST", f"/api/v1/send/bulk{query}", encoded(found))
        assert status in {202, 422}, answer
        if status == 202:
            assert len(answer["results"]) == len(found)
            assert answer["accepted"] == sum(result["queued"] for result in answer["results"])
            count += answer["accepted"]

    @fuzz(80)
    @given(
        st.lists(
            st.one_of(changed(GOOD, more=MORE).map(encoded), damaged(encoded(GOOD)), st.binary(max_size=30)), max_size=6
        ),
        st.integers(1, 50),
    )
    def streams(lines: list[bytes], size: int) -> None:
        nonlocal count
        whole = b"\n".join(lines)

        def pieces() -> Iterator[bytes]:
            for start in range(0, len(whole), size):
                yield whole[start : start + size]

        status, answer = fuzzed.call(
            "POST",
            "/api/v1/send/bulk",
            pieces(),
            {"Content-Type": "application/x-ndjson", "Transfer-Encoding": "chunked"},
        )
        assert status == 202, answer
        results = [json.loads(line) for line in answer.splitlines()]
        assert len(results) == len([line for line in whole.split(b"\n") if line.strip()])
        count += sum(result["queued"] for result in results)

    arrays()
    streams()
    assert accepted_messages(fuzzed) == count


def test_large_bulks_cost_little(fuzzed: Fuzzed) -> None:
    count = accepted_messages(fuzzed)
    for raw in (
        b"[" + b",".join([b"0"] * 4_000_000) + b"]",  # 8 MB that would become a gigabyte
        b"[" + b",".join([b"{}"] * 60_000) + b"]",
        b"[" * 8_000_000,
        b'["' + b"a" * 9_000_000 + b'"]',
    ):
        status, answer = fuzzed.call("POST", "/api/v1/send/bulk", raw)
        assert status in {0, 400, 413, 422}, answer
        assert fuzzed.call("GET", "/ready")[0] == 200
    status, answer = fuzzed.call(
        "POST", "/api/v1/send/bulk", b'{"to":"' + b"1" * 3_000_000, {"Content-Type": "application/x-ndjson"}
    )
    assert status in {0, 202}, answer
    assert accepted_messages(fuzzed) == count
