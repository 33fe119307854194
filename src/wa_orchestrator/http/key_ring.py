"""The keys of the installation, as this process knows them: a look-up that costs a request no call to the store.

What is known is at most two seconds old, so a key that is revoked on one server is refused by all of them after that,
and at once by the server that revoked it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import time

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import KeyDisabled, KeyExpired, TooManyRequests, Unauthorized
from wa_orchestrator.model.caller import FIRST_KEY, Caller
from wa_orchestrator.store import Store
from wa_orchestrator.store.api_keys import ApiKey, read_record

_KNOWN_FOR_S = 2.0
# somebody who guesses keys makes us look this often and no more
_LOOK_AGAIN_S = 0.25
_NOTE_USE_EVERY_MS = 60_000


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


class KeyRing:
    def __init__(self, *, store: Store, clock: Clock, first_key: str) -> None:
        self._store = store
        self._clock = clock
        self._first = first_key.encode()
        self._known: dict[str, tuple[ApiKey, Caller]] = {}
        self._records: dict[str, str] = {}
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._noted: dict[str, int] = {}

    async def caller(self, given: str) -> Caller:
        """Whose key this is; raises Unauthorized."""
        raw = given.encode("utf-8", "replace")
        # the first key needs no store: with it an operator can look around while the store is away
        if self._first and hmac.compare_digest(raw, self._first):
            return FIRST_KEY
        found = await self._look_up(digest_of(given))
        if found is None:
            raise Unauthorized("The API key is not valid.")
        key, caller = found
        now = self._clock.now_ms()
        if key.disabled:
            raise KeyDisabled
        if key.expires_at is not None and key.expires_at <= now:
            raise KeyExpired
        self._note_use(key, now)
        return caller

    async def _look_up(self, digest: str) -> tuple[ApiKey, Caller] | None:
        await self._read(older_than_s=_KNOWN_FOR_S)
        if digest not in self._known:
            # it may have been made on another server a moment ago
            await self._read(older_than_s=_LOOK_AGAIN_S)
        return self._known.get(digest)

    async def _read(self, *, older_than_s: float) -> None:
        if time.monotonic() - self._read_at < older_than_s:
            return
        async with self._reading:
            began = time.monotonic()
            if began - self._read_at < older_than_s:
                return  # read by another request meanwhile
            records = await self._store.api_keys.records()
            if records != self._records:
                kept = [read_record(key_id, text) for key_id, text in records.items()]
                self._known = {key.digest: (key, key.caller()) for key in kept}
                self._records = records
            self._read_at = began

    def _note_use(self, key: ApiKey, now: int) -> None:
        if now - self._noted.get(key.key_id, 0) >= _NOTE_USE_EVERY_MS:
            self._noted[key.key_id] = now
            self._store.api_keys.note_use(key.key_id, now)

    def forget(self) -> None:
        """Something changed here: the next request looks again."""
        self._read_at = float("-inf")

    async def take_turn(self, caller: Caller) -> None:
        """The key's own rate, for calls that are no messages; those are counted where they are accepted."""
        if not caller.rate_per_minute:
            return
        if wait_ms := await self._store.api_keys.take_turn(caller):
            raise too_often(wait_ms)


def too_often(wait_ms: int) -> TooManyRequests:
    return TooManyRequests(
        "This key's own rate is used up. Wait as long as Retry-After says.",
        details={"retryAfterMs": wait_ms, "of": "key"},
        retry_after_s=max(1, -(-wait_ms // 1000)),
    )
