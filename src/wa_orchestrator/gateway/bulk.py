"""Many messages in one request: an array, or one JSON object per line, each with its own result."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from wa_orchestrator.errors import InvalidBody, InvalidJson, OrchestratorError, StoreUnavailable, TooLarge
from wa_orchestrator.gateway.accept import Gateway, decode_send
from wa_orchestrator.model.caller import Caller

# as many store calls as one pipeline takes (store/connection.py)
_AT_ONCE = 256
_LONGEST_LINE = 1 << 20
_MOST_ITEMS = 50_000
_COMMAS_PER_ITEM = 20  # a message as clients write it has five
_array = msgspec.json.Decoder(list[msgspec.Raw])


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The non-empty lines of a stream, as they come."""
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield line
        if len(rest) > _LONGEST_LINE:
            raise TooLarge(f"A line is longer than {_LONGEST_LINE} bytes. Send files by URL, or upload them first.")
    if rest.strip():
        yield rest


def items_of_array(body: bytes) -> list[bytes]:
    # before it is read: a few megabytes of `0,0,0…` would become a gigabyte of items
    if body.count(b",") > _MOST_ITEMS * _COMMAS_PER_ITEM:
        raise _too_many()
    try:
        found = _array.decode(body)
    except msgspec.ValidationError:
        raise InvalidBody(
            "Send an array of messages, or one JSON object per line (application/x-ndjson).", details={"field": "body"}
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InvalidJson from None
    if len(found) > _MOST_ITEMS:
        raise _too_many()
    return [bytes(item) for item in found]


def _too_many() -> TooLarge:
    return TooLarge(
        f"An array holds at most {_MOST_ITEMS} messages. Send more as a stream of lines (application/x-ndjson)."
    )


class Bulk:
    def __init__(
        self, gateway: Gateway, *, caller: Caller, spread_ms: int = 0, now_ms: int = 0, total: int = 0
    ) -> None:
        self._gateway = gateway
        self._caller = caller
        self._spread = (spread_ms, now_ms, max(total, 1))

    async def results(self, items: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
        """One result per item, in order. A store that goes away ends the stream with an error the caller can see."""
        number = 0
        batch: list[bytes] = []
        async for item in items:
            batch.append(item)
            if len(batch) == _AT_ONCE:
                for result in await self._batch(batch, number):
                    yield result
                number += len(batch)
                batch = []
        for result in await self._batch(batch, number):
            yield result

    async def _batch(self, batch: list[bytes], number: int) -> list[dict[str, Any]]:
        return list(await asyncio.gather(*(self._one(raw, number + i) for i, raw in enumerate(batch))))

    async def _one(self, raw: bytes, index: int) -> dict[str, Any]:
        try:
            accepted = await self._gateway.accept(decode_send(raw), caller=self._caller, spread_to=self._time_of(index))
        except OrchestratorError as error:
            told: dict[str, Any] = {"code": error.code, "message": error.message}
            if error.details:
                told["details"] = error.details
            if isinstance(error, StoreUnavailable):
                told["message"] = "The store went away; send this item again with the same idempotencyKey."
            return {"index": index, "queued": False, "error": told}
        return {"index": index, **accepted.body, "replayed": accepted.replayed}

    def _time_of(self, index: int) -> int | None:
        """`spreadMinutes` gives each item its own time, evenly."""
        spread_ms, now_ms, total = self._spread
        return now_ms + spread_ms * index // total if spread_ms else None
