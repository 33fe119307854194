"""The scripts around webhooks, each a whole step: kept places, parked sessions, dead letters."""

from __future__ import annotations

import pytest

from wa_orchestrator.errors import LeaseLost, TooManyWebhooks, WebhookNotFound
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store import Store
from wa_orchestrator.store import webhooks as webhooks_module
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator.store.webhooks import LaneProgress, Letter, Parked, Progress

HOOK = "wh_0123456789abcdef"


def entry(number: int, session: str = "a") -> JournalEntry:
    return JournalEntry(number=number, type="MESSAGE_RECEIVED", session_id=session, at=1, data={"text": "שלום"})


def letter(number: int, session: str = "a") -> Letter:
    return Letter(session=session, event=entry(number, session).to_json(), dead_at=7, reason="answered 500", tries=3)


@pytest.fixture
async def hooks(store: Store) -> Store:
    await store.connection.call("SET", "leader", "me")
    await store.webhooks.create(Webhook(webhook_id=HOOK, url="https://a.example/", secret="s"))
    return store


async def settle(store: Store, progress: Progress, cursor: int = 0, *, owner: str = "me") -> dict[str, int]:
    return await store.webhooks.settle(HOOK, progress, owner=owner, cursor=cursor)


def waiting(session: str, *numbers: int, done: tuple[int, ...] = ()) -> Progress:
    add = {number: entry(number, session).to_json() for number in numbers}
    return Progress(lanes={session: LaneProgress(add=add, done=list(done), state=Parked(failures=2, since=5))})


async def test_a_cursor_only_moves_forward(hooks: Store) -> None:
    await settle(hooks, Progress(), 50)
    await settle(hooks, Progress(), 20)
    assert (await hooks.webhooks.get(HOOK)).cursor == 50
    await settle(hooks, Progress(restart=True), 3)
    assert (await hooks.webhooks.get(HOOK)).cursor == 3, "numbers began anew"


async def test_only_the_leader_settles_and_only_what_exists(hooks: Store) -> None:
    with pytest.raises(LeaseLost):
        await settle(hooks, waiting("a", 1), 9, owner="former")
    assert (await hooks.webhooks.get(HOOK)).waiting == 0
    await hooks.webhooks.delete(HOOK)
    with pytest.raises(WebhookNotFound):
        await settle(hooks, waiting("a", 1), 9)
    assert await hooks.connection.call("KEYS", "webhook:*") == []


async def test_a_parked_session_waits_in_order_until_it_is_empty(hooks: Store) -> None:
    assert await settle(hooks, waiting("a", 9, 3, 7)) == {"a": 3}
    assert await settle(hooks, waiting("a", 9, 3, 7)) == {"a": 3}, "a repeat changes nothing"
    assert [e.number for e in await hooks.webhooks.waiting(HOOK, "a", limit=10)] == [3, 7, 9]
    assert (await hooks.webhooks.parked(HOOK))["a"].failures == 2
    assert await settle(hooks, waiting("a", 11, done=(3, 7))) == {"a": 2}
    assert await settle(hooks, waiting("a", done=(9, 11))) == {"a": 0}
    assert await hooks.webhooks.parked(HOOK) == {}
    assert (await hooks.webhooks.get(HOOK)).waiting == 0


async def test_dead_letters_are_listed_driven_again_and_thrown_away(hooks: Store) -> None:
    await settle(hooks, Progress(dead={number: letter(number) for number in (1, 2, 3, 4)}))
    await settle(hooks, Progress(dead={4: letter(4)}))
    found = await hooks.webhooks.get(HOOK)
    assert (found.dead, found.dead_now) == (4, 4)
    assert [one.entry().number for one in await hooks.webhooks.dead(HOOK, before=None, limit=2)] == [4, 3]
    assert [one.entry().number for one in await hooks.webhooks.dead(HOOK, before=3, limit=2)] == [2, 1]
    assert await hooks.webhooks.redrive(HOOK, [4, 99], drop=False, limit=10) == (1, 3)
    assert await hooks.webhooks.redrive(HOOK, [4], drop=False, limit=10) == (0, 3), "a repeat finds nothing"
    assert [e.number for e in await hooks.webhooks.waiting(HOOK, "a", limit=10)] == [4]
    assert (await hooks.webhooks.get(HOOK)).waiting == 1
    assert await hooks.webhooks.redrive(HOOK, None, drop=True, limit=2) == (2, 1)
    with pytest.raises(WebhookNotFound):
        await hooks.webhooks.redrive("wh_nobody", None, drop=False, limit=2)


async def test_changes_are_counted_and_switching_on_forgets_failures(hooks: Store) -> None:
    before = await hooks.webhooks.changes()
    await settle(hooks, Progress(fields={"failures": "12", "failingSince": "5"}, disable="GONE"))
    off = await hooks.webhooks.get(HOOK)
    assert (off.enabled, off.disabled_reason, off.failures) == (False, "GONE", 12)
    await hooks.webhooks.change(HOOK, {"enabled": True})
    on = await hooks.webhooks.get(HOOK)
    assert (on.enabled, on.disabled_reason, on.failures, on.secret) == (True, "", 0, "s")
    assert await hooks.webhooks.changes() == before + 2
    assert on.version == off.version + 1


async def test_failing_is_told_once_and_so_is_recovery(hooks: Store) -> None:
    for tell in ("failing", "failing", "recovered", "recovered"):
        await settle(hooks, Progress(tell=tell, fields={"lastError": "no connection"}))
    told = [e.type for e in await hooks.journal.after(0, limit=100) if e.type.startswith("webhook.")]
    assert told == ["webhook.created", "webhook.failing", "webhook.recovered"]


async def test_there_is_a_bound(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks_module, "MOST_WEBHOOKS", 2)
    for number in range(2):
        await store.webhooks.create(Webhook(webhook_id=f"wh_{number}", url="https://a.example/"))
    with pytest.raises(TooManyWebhooks):
        await store.webhooks.create(Webhook(webhook_id="wh_3", url="https://a.example/"))
    await store.webhooks.create(Webhook(webhook_id="wh_1", url="https://b.example/"))
    assert len(await store.webhooks.all()) == 2
