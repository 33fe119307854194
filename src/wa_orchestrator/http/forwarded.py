"""The caller's own address and scheme, where a proxy in front of us tells them.

Only this machine's proxies are believed, and those of FORWARDED_ALLOW_IPS. The busiest routes ask for neither, so they
stand before this.
"""

from __future__ import annotations

import os
from typing import Any, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from wa_orchestrator.http.asgi import App, Receive, Scope, Send


class Forwarded:
    def __init__(self, inner: App) -> None:
        self._inner = inner
        trusted = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1")
        self._told = ProxyHeadersMiddleware(cast(Any, inner), trusted_hosts=trusted)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._told(cast(Any, scope), cast(Any, receive), cast(Any, send))
