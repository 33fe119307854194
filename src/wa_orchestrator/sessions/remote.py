"""Has the leader carry out an order that was given here, and waits until it is done."""

from __future__ import annotations

import asyncio

from wa_orchestrator.clock import Clock
from wa_orchestrator.errors import RunnerUnavailable
from wa_orchestrator.model.session import Session, Wanted
from wa_orchestrator.store import Store

# a take-over takes up to 11 s, a stop and a start another few
_PATIENCE_S = 30.0
_LOOK_AGAIN_S = 0.1
_ASK_AGAIN_S = 2.0


def is_settled(session: Session | None) -> bool:
    """Does the worker do what is wanted, as far as the leader has told?"""
    if session is None:
        return True
    if session.wanted is Wanted.DELETED:
        return False
    if session.wanted is Wanted.STOPPED or session.waiting_for_proxy or not session.proxy_id:
        return session.ran_order == 0
    return session.ran_order == session.run_order


async def ask_leader(store: Store, session_id: str, clock: Clock) -> None:
    """Returns when the leader has done it; raises its reason, or that there is no leader."""
    asked_at = clock.now_ms()
    next_ask = 0.0
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_S
    while loop.time() < deadline:
        if loop.time() >= next_ask:
            await store.sessions.ask_to_reconcile(session_id)
            next_ask = loop.time() + _ASK_AGAIN_S
        session = await store.sessions.get(session_id)
        if is_settled(session):
            return
        if session and session.start_error and session.start_error_at >= asked_at:
            raise RunnerUnavailable(session.start_error)
        await asyncio.sleep(_LOOK_AGAIN_S)
    raise RunnerUnavailable("No orchestrator carried the order out in time. Is one running that leads?")
