"""Wanted versus running: what to do about one session. Pure."""

from __future__ import annotations

from enum import StrEnum

from wa_orchestrator.model.session import Session, Wanted
from wa_orchestrator.runners.port import RunningWorker


class Step(StrEnum):
    NOTHING = "nothing"
    START = "start"
    REPLACE = "replace"  # stop, then start as ordered
    STOP = "stop"
    DELETE = "delete"  # stop, set the folder aside, remove the record


def next_step(session: Session, running: RunningWorker | None) -> Step:
    """The one step that brings `running` to what is wanted."""
    if session.wanted is Wanted.DELETED:
        return Step.DELETE
    if session.wanted is Wanted.STOPPED:
        return Step.STOP if running else Step.NOTHING
    # no healthy proxy: a worker on the dead one would only fail again and again
    if session.waiting_for_proxy or not session.proxy_id:
        return Step.STOP if running else Step.NOTHING
    if running is None:
        return Step.START
    # ordered anew since it was started: a restart, or a move to another proxy
    if running.run_order != session.run_order or running.proxy_id != session.proxy_id:
        return Step.REPLACE
    return Step.NOTHING
