"""The webhooks of a WAHA session, kept as subscriptions of ours for that session alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wa_orchestrator.events.targets import Guard
from wa_orchestrator.events.webhooks import check
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.rooms import Rooms
from wa_orchestrator.waha import bodies
from wa_orchestrator.waha.subscriptions import made_with_session, subscriptions, with_hidden_filled

_KEPT_MS = 86_400_000


class SessionWebhooks:
    def __init__(self, rooms: Rooms) -> None:
        self._store = rooms.store
        self._webhooks = rooms.webhooks
        self._clock = rooms.clock
        self._guard = Guard.from_setting(rooms.settings.webhook_allow_private)

    async def checked(
        self, given: Sequence[bodies.Webhook], *, present: Sequence[dict[str, Any]] = ()
    ) -> list[bodies.Webhook]:
        """Refuses what we would not call; nothing is changed yet."""
        filled = with_hidden_filled(given, present)
        for one in subscriptions("checked", filled, base_url=""):
            check(one)
        for url in {one.url for one in filled}:
            await self._guard.check(url)
        return filled

    async def by_session(self) -> dict[str, list[Webhook]]:
        found: dict[str, list[Webhook]] = {}
        for one in await self._store.webhooks.all():
            if made_with_session(one):
                found.setdefault(one.sessions[0], []).append(one)
        return found

    async def sweep(self) -> None:
        """Takes away those of sessions that are gone, once their last events had time to be delivered."""
        there = set(await self._store.sessions.all_ids())
        long_ago = self._clock.now_ms() - _KEPT_MS
        for session_id, found in (await self.by_session()).items():
            for one in found:
                if session_id not in there and max(one.updated_at, one.last_try_at) < long_ago:
                    await self._webhooks.delete(one.webhook_id)

    async def put(self, session_id: str, given: Sequence[bodies.Webhook], *, by: str, base_url: str = "") -> None:
        """These and no others. Each step can be repeated, and what is wanted again is not touched in between."""
        wanted = subscriptions(session_id, given, base_url=base_url)
        for one in wanted:
            await self._webhooks.create(replace(one, by=by))
        for known in (await self.by_session()).get(session_id, []):
            if known.webhook_id not in {one.webhook_id for one in wanted}:
                await self._webhooks.delete(known.webhook_id)
