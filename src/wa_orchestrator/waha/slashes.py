"""WAHA's server takes an address with a slash at its end as well, and its documents write some of them so."""

from __future__ import annotations

from wa_orchestrator.http.asgi import App, Receive, Scope, Send


class WithoutEndingSlash:
    """In place of a redirect, which many clients do not follow for a POST."""

    def __init__(self, inner: App) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if path.endswith("/") and path.startswith("/waha/"):
            scope["path"] = path.rstrip("/")
        await self._inner(scope, receive, send)
