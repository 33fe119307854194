"""Accepting: ids, fingerprints, keys, times and senders, before the store is asked."""

from __future__ import annotations

import json
import random
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.messages import settings
from wa_orchestrator import errors
from wa_orchestrator.clock import ManualClock
from wa_orchestrator.gateway.accept import Gateway, _fingerprint, decode_send
from wa_orchestrator.gateway.bulk import items_of_array, lines_of
from wa_orchestrator.model.caller import FIRST_KEY, Caller
from wa_orchestrator.store import Store
from wa_orchestrator.store.messages import NewMessage

CLOCK = ManualClock()
NOW = CLOCK.now_ms()
DAY = 86_400_000
TO = "972521111111"


class Kept(Exception):
    """What would have gone into the store."""

    def __init__(self, message: NewMessage) -> None:
        self.message = message


class _Messages:
    async def enqueue(self, message: NewMessage) -> dict[str, Any]:
        raise Kept(message)


class _Store:
    messages = _Messages()


GATEWAY = Gateway(store=cast(Store, _Store()), settings=settings(), clock=CLOCK)


async def kept(body: dict[str, Any], *, key: str | None = None, by: str = "api") -> NewMessage:
    with pytest.raises(Kept) as found:
        await GATEWAY.accept(decode_send(json.dumps(body).encode()), caller=Caller(by=by), idempotency_key=key)
    return found.value.message


async def test_ids_are_new_each_time_and_belong_together() -> None:
    made = [await kept({"to": TO, "text": "a"}) for _ in range(50)]
    assert len({m.message_id for m in made}) == 50
    for message in made:
        number = message.message_id.removeprefix("msg_")
        assert message.wa_message_id == f"3EB0{number.upper()}"
        assert len(message.wa_message_id) == 22
    assert (made[0].to, made[0].recipient) == (f"{TO}@s.whatsapp.net", TO)


async def test_the_fingerprint_does_not_depend_on_order_or_spacing() -> None:
    body = {"to": TO, "message": {"image": {"url": "https://x", "caption": "b"}, "quote": "3A"}, "priority": 1}
    backwards = {k: body[k] for k in reversed(body)}
    backwards["message"] = {"quote": "3A", "image": {"caption": "b", "url": "https://x"}}
    prints = {(await kept(b, key="k")).fingerprint for b in (body, backwards, {**body, "idempotencyKey": "k"})}
    assert len(prints) == 1
    assert (await kept({**body, "priority": 2}, key="k")).fingerprint not in prints
    assert (await kept(body)).fingerprint == ""


@given(st.dictionaries(st.text(max_size=5), st.integers(), max_size=5), st.randoms())
def test_any_order_of_fields_means_the_same(extra: dict[str, int], dice: random.Random) -> None:
    fields = list(extra.items())
    dice.shuffle(fields)
    one = decode_send(msgspec.json.encode({"to": TO, "message": {"text": "a", **extra}}))
    other = decode_send(msgspec.json.encode({"message": {**dict(fields), "text": "a"}, "to": TO}))
    assert ("text" in extra) or _fingerprint(one) == _fingerprint(other)


async def test_keys_of_different_callers_do_not_meet_and_name_nothing() -> None:
    one, other = await kept({"to": TO, "text": "a"}, key="k"), await kept({"to": TO, "text": "a"}, key="k", by="other")
    assert one.idempotency_key != other.idempotency_key
    assert one.idempotency_key != "k"
    in_body = await kept({"to": TO, "text": "a", "idempotencyKey": "k"})
    assert in_body.idempotency_key == one.idempotency_key


@pytest.mark.parametrize("key", ["a b", "x" * 256, "ключ", "line\n", "\x7f"])
async def test_a_key_has_visible_ascii_characters(key: str) -> None:
    with pytest.raises(errors.InvalidBody) as refused:
        await GATEWAY.accept(decode_send(b'{"to":"972521111111","text":"a"}'), caller=FIRST_KEY, idempotency_key=key)
    assert refused.value.details == {"field": "Idempotency-Key"}


@pytest.mark.parametrize(
    ("body", "error", "field"),
    [
        ({"text": "a"}, errors.InvalidBody, "to"),
        ({"to": 5, "text": "a"}, errors.InvalidBody, "to"),
        ({"to": "nobody", "text": "a"}, errors.InvalidRecipient, "to"),
        ({"to": TO}, errors.InvalidBody, "message"),
        ({"to": TO, "text": "a", "message": "b"}, errors.InvalidBody, "message"),
        ({"to": TO, "message": 5}, errors.InvalidBody, "message"),
        ({"to": TO, "text": "a", "subject": "b"}, errors.InvalidBody, "subject"),
        ({"to": TO, "text": "a", "priority": 0}, errors.InvalidBody, "priority"),
        ({"to": TO, "text": "a", "priority": 4}, errors.InvalidBody, "priority"),
        ({"to": TO, "text": "a", "priority": "high"}, errors.InvalidBody, "priority"),
        ({"to": TO, "text": "a", "defer": "yes"}, errors.InvalidBody, "defer"),
        ({"to": TO, "text": "a", "sessionId": "a b"}, errors.InvalidSessionId, "sessionId"),
        ({"to": TO, "text": "a", "sessionId": "a", "phone": TO}, errors.InvalidBody, "sessionId"),
        ({"to": TO, "text": "a", "phone": TO, "from": TO}, errors.InvalidBody, "sessionId"),
        ({"to": TO, "text": "a", "from": "12"}, errors.InvalidPhone, "phone"),
        ({"to": TO, "text": "a", "scheduleAt": "soon"}, errors.InvalidBody, "scheduleAt"),
        ({"to": TO, "text": "a", "scheduleAt": "2030-01-01T00:00:00"}, errors.InvalidBody, "scheduleAt"),
        ({"to": TO, "text": "a", "scheduleAt": NOW + 367 * DAY}, errors.InvalidBody, "scheduleAt"),
        ({"to": TO, "text": "a", "scheduleAt": "0001-01-01T00:00:00+14:00"}, errors.InvalidBody, "scheduleAt"),
        ({"to": TO, "text": "a", "expiresAt": NOW}, errors.InvalidBody, "expiresAt"),
        ({"to": TO, "text": "a", "expiresAt": NOW + 5, "scheduleAt": NOW + 5}, errors.InvalidBody, "expiresAt"),
        ({"to": TO, "text": "a", "reference": "x" * 201}, errors.InvalidBody, "reference"),
    ],
)
async def test_a_bad_body_is_refused_with_its_field(body: dict[str, Any], error: type[Exception], field: str) -> None:
    with pytest.raises(error) as refused:
        await GATEWAY.accept(decode_send(json.dumps(body).encode()), caller=FIRST_KEY)
    assert isinstance(refused.value, errors.OrchestratorError)
    assert (refused.value.details or {})["field"] == field


async def test_times_are_read_in_both_forms_and_past_ones_mean_now() -> None:
    moment = "2023-11-15T02:00:00+02:00"
    assert (await kept({"to": TO, "text": "a", "scheduleAt": moment})).schedule_at == 1_700_006_400_000
    assert (await kept({"to": TO, "text": "a", "scheduleAt": NOW + 5})).schedule_at == NOW + 5
    assert (await kept({"to": TO, "text": "a", "scheduleAt": NOW - 5})).schedule_at is None
    assert (await kept({"to": TO, "text": "a", "expiresAt": NOW + 5})).expires_at == NOW + 5


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 5000, b'{"to":"\\ud800","text":"a"}'])
def test_what_is_no_json_is_told_so(raw: bytes) -> None:
    with pytest.raises((errors.InvalidJson, errors.InvalidBody)):
        decode_send(raw)


async def test_the_lines_of_a_stream_are_found_in_any_pieces() -> None:
    text = b'{"a":1}\n\n{"b":2}\r\n  \n{"c":3}'
    for size in range(1, len(text) + 1):
        pieces = [text[i : i + size] for i in range(0, len(text), size)]

        async def chunks(parts: list[bytes] = pieces) -> Any:
            for part in parts:
                yield part

        assert [json.loads(line) for line in [x async for x in lines_of(chunks())]] == [{"a": 1}, {"b": 2}, {"c": 3}]


def test_an_array_is_taken_apart_without_reading_its_items() -> None:
    assert items_of_array(b'[{"to": 1}, 5, "x"]') == [b'{"to": 1}', b"5", b'"x"']
    with pytest.raises(errors.InvalidBody) as refused:
        items_of_array(b"{}")
    assert refused.value.details == {"field": "body"}
    with pytest.raises(errors.InvalidJson):
        items_of_array(b"[")
