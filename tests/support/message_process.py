"""A process to be killed: serves due lanes, or claims and acknowledges like workers do; run as a program.

python message_process.py dispatch|work <store url> <lease ms> <ledger folder> <session id>…
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.messages import settings
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.dispatcher.loop import Dispatcher
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.logs import configure_logs
from wa_orchestrator.store import Store, StoreRules


async def dispatch(store: Store) -> None:
    clock, chosen = SystemClock(), settings()
    planner = Planner(store=store, settings=chosen, clock=clock)
    dispatcher = Dispatcher(store=store, planner=planner, settings=chosen, clock=clock)
    while True:
        await dispatcher.run_once()
        await store.outbox.requeue_expired()
        await store.outbox.wake_retries()
        await asyncio.sleep(0.005)


async def work(store: Store, sessions: list[str], ledger: Path) -> None:
    """Each message is written down before it is acknowledged; one that is known already is only acknowledged."""
    own = (ledger / f"{os.getpid()}.txt").open("a", buffering=1)
    dice = random.Random()
    while True:
        session_id = dice.choice(sessions)
        found = await store.outbox.claim(session_id, most=dice.randint(1, 16))
        for message in found:
            own.write(message["messageId"] + "\n")
            await store.outbox.ack(message["messageId"], session_id=session_id, sent_at=1)
        if not found:
            await asyncio.sleep(0.005)


async def main(role: str, url: str, lease_ms: int, ledger: Path, sessions: list[str]) -> None:
    configure_logs(level="error")
    store = Store(url, SystemClock(), StoreRules(message_lease_ms=lease_ms))
    await (dispatch(store) if role == "dispatch" else work(store, sessions, ledger))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]), sys.argv[5:]))
