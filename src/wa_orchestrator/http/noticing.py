"""Lets a route hear that its caller hung up; it finds the word in the request's state."""

from __future__ import annotations

import asyncio

from wa_orchestrator.http.asgi import Scope
from wa_orchestrator.http.bounded import BoundedProtocol
from wa_orchestrator.worker_api.hang_up import HangUp

_NAME = "hang_up"


class NoticingProtocol(BoundedProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._hang_up = HangUp()
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._hang_up.happen()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["state"][_NAME] = self._hang_up


def hang_up_of(scope: Scope) -> HangUp:
    found: HangUp = scope["state"][_NAME]
    return found
