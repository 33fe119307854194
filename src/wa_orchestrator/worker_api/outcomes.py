"""A worker's word on a message: sent, or not and why. Decides what kind of failure it is."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from wa_orchestrator.errors import InvalidBody, InvalidJson
from wa_orchestrator.store import Store
from wa_orchestrator.store.outbox import Kind
from wa_orchestrator.worker_api.malformed import malformed

# no answer from WhatsApp, or no connection: it may have left, so it is repeated with the same id
_UNCLEAR = frozenset({"ACK_TIMEOUT", "NOT_CONNECTED"})
# WhatsApp's own limits and how long the lane rests when WhatsApp does not say
_LIMITED_MS = {"RATE_LIMITED": 5 * 60_000, "RESTRICTED": 60 * 60_000}
_LONGEST_PAUSE_MS = 24 * 60 * 60_000
_Moment = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]  # until the end of year 9999


class Ack(msgspec.Struct, rename="camel", frozen=True):
    message_id: str
    token: int | str
    sent_at: _Moment
    wa_message_id: str = ""
    repeated: bool = False


class NackError(msgspec.Struct, frozen=True):
    code: str
    message: str = ""


class Nack(msgspec.Struct, rename="camel", frozen=True):
    message_id: str
    token: int | str
    error: NackError
    retryable: bool = True
    retry_after_ms: Annotated[int, msgspec.Meta(ge=0)] | None = None


T = TypeVar("T")
_ack = msgspec.json.Decoder(Ack)
_nack = msgspec.json.Decoder(Nack)


def kind_of(code: str) -> Kind:
    if code in _LIMITED_MS:
        return "limited"
    return "unclear" if code in _UNCLEAR else "refused"


class Outcomes:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def ack(self, session_id: str, body: bytes) -> dict[str, Any]:
        ack = _decoded(_ack, body)
        repeated = await self._store.outbox.ack(ack.message_id, session_id=session_id, sent_at=ack.sent_at)
        return {"ok": True, "repeated": repeated}

    async def nack(self, session_id: str, body: bytes) -> dict[str, Any]:
        nack = _decoded(_nack, body)
        code = nack.error.code[:60]
        state = await self._store.outbox.nack(
            nack.message_id,
            session_id=session_id,
            token=_token(nack.token),
            code=code,
            message=nack.error.message[:300],
            retryable=nack.retryable,
            retry_after_ms=None if nack.retry_after_ms is None else min(nack.retry_after_ms, _LONGEST_PAUSE_MS),
            kind=kind_of(code),
            block_ms=_LIMITED_MS.get(code, 0),
        )
        return {"ok": True, "state": state}


def _token(token: int | str) -> int:
    if isinstance(token, int):
        return token
    if token.isdigit() and len(token) < 16:
        return int(token)
    raise InvalidBody("token is not one of ours.", details={"field": "token"})


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise malformed("body", error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson from None
