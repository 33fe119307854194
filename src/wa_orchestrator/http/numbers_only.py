"""The HTTP side of a process that serves nobody else, a dispatcher alone: health, readiness, metrics."""

from __future__ import annotations

from wa_orchestrator.errors import MethodNotAllowed, NotFound
from wa_orchestrator.http.asgi import App, Receive, Scope, Send, header_map, send_body, send_json
from wa_orchestrator.http.gate import Gate
from wa_orchestrator.http.system import check_scraper, health, store_answers
from wa_orchestrator.metrics.exposition import CONTENT_TYPE, Exposition
from wa_orchestrator.settings import Settings
from wa_orchestrator.store import Store


def build_numbers_app(settings: Settings, store: Store, metrics: Exposition) -> App:
    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise NotFound
        if scope["method"] not in {"GET", "HEAD"}:
            raise MethodNotAllowed("Use GET here.")
        match scope["path"]:
            case "/health":
                await send_json(send, 200, await health(metrics))
            case "/ready":
                answers = await store_answers(store)
                await send_json(send, 200 if answers else 503, {"ready": answers})
            case "/metrics":
                check_scraper(settings, header_map(scope))
                await send_body(send, 200, await metrics.text(), content_type=CONTENT_TYPE.encode())
            case _:
                raise NotFound

    return Gate(answer, max_body_bytes=settings.max_body_bytes)
