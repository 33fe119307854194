"""The workers' side of the control plane alone: the product's own routes and rooms, without starting any worker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any, cast

import uvloop

from benchmarks.world import WEBHOOK_SECRET
from wa_orchestrator.background import Services
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.gateway.media import NoMediaStore
from wa_orchestrator.http.asgi import Receive, Scope, Send, send_json
from wa_orchestrator.http.gate import Gate
from wa_orchestrator.http.serving import bound_socket, serve, url_of
from wa_orchestrator.http.worker_routes import WorkerRoutes
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.store import Store
from wa_orchestrator.worker_api.claims import Claims
from wa_orchestrator.worker_api.intake import Intake
from wa_orchestrator.worker_api.outcomes import Outcomes
from wa_orchestrator.worker_api.wake import Wake


async def _at_once(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Everything else: an answer without any work, to see what the way there and back costs now."""
    await send_json(send, 200, {"ok": True})


async def main() -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    clock, services = SystemClock(), Services()
    store = Store(os.environ["STORE_URL"], clock)
    wake = Wake(store)
    services.start("wake", wake)
    nobody = cast(Any, None)  # no events come here, so nobody is needed to act on them
    intake = Intake(store=store, lifecycle=nobody, pool=nobody, clock=clock, webhook_secret=WEBHOOK_SECRET,
                    opt_words=nobody)  # fmt: skip
    routes = WorkerRoutes(
        _at_once,
        intake=intake,
        claims=Claims(store=store, wake=wake),
        outcomes=Outcomes(store),
        media=NoMediaStore(),
        inbound=nobody,
    )
    with bound_socket("127.0.0.1", 0) as listening:
        http = await serve(Gate(routes, max_body_bytes=1 << 20), listening)
        ready = Path(os.environ["READY_FILE"])
        ready.write_text(json.dumps({"url": url_of("127.0.0.1", listening.getsockname()[1])}))
        await stop.wait()
        wake.close()
        await http.end()
    await services.stop()
    await store.close()


if __name__ == "__main__":
    configure_logs(level="error")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
