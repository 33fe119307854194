"""What webhooks must know of sessions (metadata, phone), remembered for a moment."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from wa_orchestrator.store import Store

_FRESH_S = 5.0
_MOST = 5000


class SessionFacts:
    def __init__(self, store: Store, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}

    def fresh(self, session_id: str) -> dict[str, Any] | None:
        """What is known and not too old, without asking."""
        found = self._known.get(session_id)
        return found[1] if found and self._monotonic() - found[0] < _FRESH_S else None

    async def of(self, session_id: str, *, anew: bool = False) -> dict[str, Any]:
        """`anew`: something just changed, so what is remembered does not count."""
        found = None if anew else self.fresh(session_id)
        if found is None:
            found = await self._store.webhooks.session_facts(session_id)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[session_id] = (self._monotonic(), found)
        return found
