"""A worker's long poll: the messages of its outbox, and commands for it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from wa_orchestrator.errors import ClientGone, InvalidBody, InvalidJson, SessionDeleted, SessionNotFound
from wa_orchestrator.store import Store
from wa_orchestrator.worker_api.hang_up import HangUp
from wa_orchestrator.worker_api.malformed import malformed
from wa_orchestrator.worker_api.wait_ends import WaitEnds, end_wait
from wa_orchestrator.worker_api.wake import Wake

_LONGEST_WAIT_MS = 60_000
_LONGEST_LIST = 1000


class ClaimRequest(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    max: int = 1
    wait_ms: int = 0
    connection: str = ""
    empty_handed: bool = False


_decoder = msgspec.json.Decoder(ClaimRequest)


class Claims:
    def __init__(self, *, store: Store, wake: Wake) -> None:
        self._store = store
        self._wake = wake
        self._ends = WaitEnds()

    async def claim(self, session_id: str, body: bytes, hang_up: HangUp) -> dict[str, Any]:
        """Waits for work; a worker that hung up must not be handed anything."""
        request = self._decode(body)
        # registered before looking: a wake between the look and the wait is not missed
        event = self._wake.register(session_id)
        try:
            found = await self._look(session_id, request, empty_handed=request.empty_handed)
            if found["commands"] or found["messages"] or not request.wait_ms:
                return found
            # nobody woke it, so there is nothing to find; the worker's next call looks anyway
            if not await self._woken(event, hang_up, wait_s=request.wait_ms / 1000):
                return found
            return await self._look(session_id, request)
        finally:
            self._wake.unregister(session_id, event)

    async def _woken(self, event: asyncio.Future[bool], hang_up: HangUp, *, wait_s: float) -> bool:
        """True when woken, False when its time is over; raises ClientGone when the worker hung up."""
        moment = self._ends.add(event, after_s=wait_s)
        hang_up.tell(lambda: end_wait(event))
        try:
            woken = await event
        finally:
            hang_up.tell(None)
            self._ends.discard(event, moment)
        if hang_up.happened:
            raise ClientGone
        return woken

    async def _look(self, session_id: str, request: ClaimRequest, *, empty_handed: bool = False) -> dict[str, Any]:
        exists, commands, messages = await self._store.outbox.look(
            session_id, most=request.max, empty_handed=empty_handed
        )
        if not exists:
            raise SessionDeleted if await self._store.sessions.was_deleted(session_id) else SessionNotFound
        return {
            "messages": [_leased(m) for m in messages],
            "commands": [msgspec.json.decode(command) for command in commands],
        }

    def _decode(self, body: bytes) -> ClaimRequest:
        try:
            request = _decoder.decode(body or b"{}")
        except msgspec.ValidationError as error:
            raise malformed("claim", error) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise InvalidJson from None
        if not 0 <= request.wait_ms <= _LONGEST_WAIT_MS:
            raise InvalidBody("waitMs is 0 to 60000.", details={"field": "waitMs"})
        if not 0 <= request.max <= _LONGEST_LIST:
            raise InvalidBody("max is 0 to 1000.", details={"field": "max"})
        return request


def _leased(message: dict[str, Any]) -> dict[str, Any]:
    """A claimed message as the worker protocol has it."""
    content = msgspec.json.decode(message["content"])
    leased = {
        "messageId": message["messageId"],
        "waMessageId": message["waMessageId"],
        "to": message["to"],
        "content": content,
        "lease": {"token": message["token"], "expiresAt": message["expiresAt"]},
        "attempt": message["attempt"],
        "typingMs": typing_ms(content, paced=message["paced"]),
        "checkExists": not message["known"] and message["to"].endswith("@s.whatsapp.net"),
    }
    if message["redriven"]:  # told only where it matters: older workers know nothing of it
        leased["redriven"] = True
    return leased


def typing_ms(content: dict[str, Any], *, paced: bool) -> int:
    """How long *typing…* is shown: about as long as a quick typist needs, at most three seconds."""
    if not paced:
        return 0
    text = content.get("text") or content.get("caption") or ""
    return min(3000, max(600, len(text) * 40))
