"""The pages with webhooks: state, dead letters, and no secret in them."""

from __future__ import annotations

from support.control_plane import ControlPlane
from support.visitor import Visitor
from wa_orchestrator.model.webhook import Webhook
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator.store.webhooks import Letter, Progress

HOOK = "wh_0123456789abcdef"


async def _hook_with_a_dead_letter(plane: ControlPlane) -> None:
    url = "https://user:hunter2@app.example/in?token=t0k3n"
    await plane.store.webhooks.create(
        Webhook(webhook_id=HOOK, url=url, secret="whsec_hidden", label="חנות <b>", enabled=False)
    )
    entry = JournalEntry(number=5, type="MESSAGE_RECEIVED", session_id="worker_1", at=1, data={"text": "private words"})
    letter = Letter(session="worker_1", event=entry.to_json(), dead_at=1, reason="answered 500", tries=9)
    leader = await plane.store.connection.call("GET", "leader")
    progress = Progress(dead={5: letter}, fields={"lastError": "answered 500", "failures": "9"})
    await plane.store.webhooks.settle(HOOK, progress, owner=leader, cursor=5)


async def test_webhooks_and_their_dead_letters_are_shown_without_secrets(plane: ControlPlane, visitor: Visitor) -> None:
    assert "Webhooks" in await visitor.get("/webhooks")
    await _hook_with_a_dead_letter(plane)
    for path in ("/webhooks", f"/webhooks/{HOOK}", "/parts/webhooks", f"/parts/webhook/{HOOK}"):
        page = await visitor.get(path)
        assert "app.example/in" in page or path.startswith("/parts/webhook/")
        for hidden in ("hunter2", "t0k3n", "whsec_hidden", "private words", "<b>"):
            assert hidden not in page, (path, hidden)
    page = await visitor.get(f"/webhooks/{HOOK}")
    assert "answered 500" in page
    assert "#5" in page
    assert f"POST /api/v1/webhooks/{HOOK}/redrive" in page
