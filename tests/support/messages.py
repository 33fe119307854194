"""Short words for message tests: linked phones, accepted messages, plans, and what the store still holds."""

from __future__ import annotations

import itertools
from typing import Any

from support.registry import add_proxies, connect, reserve
from wa_orchestrator.clock import Clock, ManualClock
from wa_orchestrator.dispatcher.loop import Dispatcher
from wa_orchestrator.dispatcher.planner import Planner
from wa_orchestrator.model.lane import LanePlan
from wa_orchestrator.model.session import Status
from wa_orchestrator.settings import Settings, load_settings
from wa_orchestrator.store import Store
from wa_orchestrator.store.messages import NewMessage
from wa_orchestrator.store.sessions import EventEffect, EventNumber

PHONE = "972500000001"
OTHER_PHONE = "972500000002"
ANNA, BERT, CARL = "972521111111", "972522222222", "972523333333"
FAR_AWAY = 10**15
DAY_MS = 86_400_000
UNPACED: dict[str, Any] = {"daily": None, "perMinute": None, "minDelayMs": 0, "maxDelayMs": 0, "hours": None,
                           "burst": None}  # fmt: skip
_numbers = itertools.count(1)


def settings(**overrides: Any) -> Settings:
    return load_settings({"TIMEZONE": "UTC"}, **overrides)


async def linked(store: Store, phone: str = PHONE, *, session_id: str = "") -> str:
    """A connected session of this phone."""
    if not await store.proxies.all():
        await add_proxies(store, 8)
    made = await reserve(store, session_id=session_id, phone=phone, allow_additional=True)
    assert await connect(store, made.session_id, phone) == "bound"
    return made.session_id


async def unlinked(store: Store, *, session_id: str = "", phone: str = "") -> str:
    """A session that nobody scanned yet."""
    if not await store.proxies.all():
        await add_proxies(store, 8)
    return (await reserve(store, session_id=session_id, phone=phone)).session_id


async def set_status(store: Store, session_id: str, status: Status, *, unlink: bool = False) -> None:
    effect = EventEffect(status=status, unlink=unlink)
    answer = await store.sessions.apply_event(session_id, EventNumber(at=FAR_AWAY), kind="TEST", effect=effect, data={})
    assert answer["outcome"] == "applied", answer


def new_message(**wanted: Any) -> NewMessage:
    number = f"{next(_numbers):018x}"
    to = wanted.pop("to", ANNA)
    values: dict[str, Any] = {
        "message_id": f"msg_{number}",
        "wa_message_id": f"3EB0{number.upper()}",
        "to": f"{to}@s.whatsapp.net",
        "recipient": to,
        "content": '{"kind":"text","text":"hello"}',
        "by": "test",
    }
    return NewMessage(**{**values, **wanted})


async def accepted(store: Store, **wanted: Any) -> str:
    """The id of a message that was accepted."""
    return str((await store.messages.enqueue(new_message(**wanted)))["messageId"])


def lane_plan(now_ms: int, **wanted: Any) -> LanePlan:
    """Without limits for a day, unless told otherwise."""
    values: dict[str, Any] = {
        "daily": None,
        "per_minute": None,
        "min_delay_ms": 0,
        "max_delay_ms": 0,
        "burst_count": None,
        "burst_pause_ms": 0,
        "opens_at": 0,
        "closes_at": now_ms + 2 * DAY_MS,
        "next_opens_at": now_ms + DAY_MS,
        "day_key": "today",
        "day_starts_at": now_ms - 1000,
        "day_ends_at": now_ms + DAY_MS,
        "replan_at": now_ms + DAY_MS,
    }
    return LanePlan(**{**values, **wanted})


async def plan(store: Store, clock: Clock, lane: str = PHONE, **wanted: Any) -> None:
    version = await store.lanes.plan_version(lane)
    assert await store.lanes.write_plan(lane, lane_plan(clock.now_ms(), **wanted), version=version)


async def release(store: Store) -> int:
    """Serves what is due; lanes without a plan must not come up."""
    released = await store.lanes.release_due(lanes=100)
    assert released.to_plan == []
    return released.moved


async def claim(store: Store, session_id: str, *, most: int = 100) -> list[str]:
    return [m["messageId"] for m in await store.outbox.claim(session_id, most=most)]


async def ack(store: Store, message_id: str, session_id: str, *, sent_at: int = 1) -> bool:
    return await store.outbox.ack(message_id, session_id=session_id, sent_at=sent_at)


async def nack(store: Store, message: dict[str, Any], session_id: str, **wanted: Any) -> str:
    values: dict[str, Any] = {"code": "WA_REJECTED", "message": "no", "retryable": True, "retry_after_ms": None,
                              "kind": "refused"}  # fmt: skip
    values |= wanted
    return await store.outbox.nack(message["messageId"], session_id=session_id, token=message["token"], **values)


async def record(store: Store, message_id: str) -> dict[str, str]:
    found = await store.messages.get(message_id)
    assert found is not None
    return found


async def state(store: Store, message_id: str) -> str:
    return (await record(store, message_id))["state"]


async def lane_field(store: Store, name: str, lane: str = PHONE) -> str | None:
    return (await store.lanes.get(lane)).get(name)


def dispatcher(store: Store, clock: ManualClock, **overrides: Any) -> Dispatcher:
    chosen = settings(**overrides)
    return Dispatcher(
        store=store, planner=Planner(store=store, settings=chosen, clock=clock), settings=chosen, clock=clock
    )


# what may stay when every message has ended: kept on purpose, each with its own end (see store/keys.py)
_KEPT = ("message:", "messages:all", "messages:number", "messages:dead", "recipient:", "stats:", "events:", "lane:",
         "claims:token", "idempotency:", "rate:", "limits:", "session:", "sessions:", "phone:", "proxy:", "proxies:",
         "counter:", "provision:", "routed:", "outbox:retries", "lanes:due", "clock:seen")  # fmt: skip
_NEVER = ("lane:inflight:", "session:outbox:")


async def leftovers(store: Store) -> list[str]:
    """Keys that no ended message should leave behind."""
    found: list[str] = await store.connection.call("KEYS", "*")
    return sorted(k for k in found if k.startswith(_NEVER) or not k.startswith(_KEPT))
