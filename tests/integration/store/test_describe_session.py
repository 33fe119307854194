"""A session's notes, and the webhooks that were made with a session."""

from __future__ import annotations

import pytest

from support.registry import add_proxies, reserve
from wa_orchestrator import errors
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store import Store
from wa_orchestrator.waha import bodies
from wa_orchestrator.waha.subscriptions import subscriptions


async def test_notes_are_written_anew(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    for metadata in ({"customer": "7", "לקוח": "דנה"}, {}):
        await store.sessions.describe(made.session_id, metadata=metadata)
        session = await store.sessions.get(made.session_id)
        assert session is not None
        assert session.metadata == metadata


async def test_a_session_that_is_gone_or_going_is_not_brought_back(store: Store) -> None:
    await add_proxies(store, 1)
    made = await reserve(store)
    await store.sessions.order(made.session_id, "delete", reason="", scan_by=0)
    with pytest.raises(errors.SessionNotFound):
        await store.sessions.describe(made.session_id, metadata={"a": "b"})
    await store.sessions.delete(made.session_id, keep_s=60)
    with pytest.raises(errors.SessionNotFound):
        await store.sessions.describe(made.session_id, metadata={"a": "b"})
    assert await store.sessions.get(made.session_id) is None


async def test_a_new_session_takes_away_only_webhooks_made_with_its_name(store: Store) -> None:
    await add_proxies(store, 1)
    hook = bodies.Webhook(url="https://hooks.invalid/a", events=["*"])
    for name in ("shop", "other"):
        for one in subscriptions(name, [hook], base_url=""):
            await store.webhooks.create(one)
    by_hand = Webhook(webhook_id="wh_0000000000000001", url="https://hooks.invalid/b", sessions=("shop",))
    await store.webhooks.create(by_hand)
    await reserve(store, session_id="shop")
    left = await store.webhooks.all()
    assert {one.sessions for one in left if one.format == "waha"} == {("other",)}
    assert by_hand.webhook_id in {one.webhook_id for one in left}
    assert len(left) == 3
