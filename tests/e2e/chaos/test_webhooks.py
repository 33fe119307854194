"""Messages pour in from simulated phones while the receiver fails and goes away and the server is killed twice.

`make chaos-webhooks` does the same with 10,000 messages."""

from __future__ import annotations

from pathlib import Path

from chaos.webhook_test import Plan, WebhookTest


def test_every_event_reaches_the_receiver_in_order_whatever_is_killed(tmp_path: Path) -> None:
    plan = Plan(seed=3, messages=300, sessions=3, down_s=3.0, settle_s=240)
    ledger = WebhookTest(plan, tmp_path).run()
    assert ledger.sound, ledger.text()
    assert ledger.kills == 2
    assert ledger.written == 300
    assert ledger.tries - ledger.received > 100, "it did fail"
