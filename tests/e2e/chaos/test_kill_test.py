"""A short form of the kill test (`make chaos` runs the long one)."""

from __future__ import annotations

import random
from pathlib import Path

from chaos.kill_test import KillTest
from chaos.traffic import Plan


def test_nothing_is_lost_and_nothing_doubled_while_everything_is_killed(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1_000_000)
    plan = Plan(seed=seed, sessions=3, messages=250, recipients=12, kill_every_s=(0.2, 0.8))
    ledger = KillTest(plan, tmp_path).run()
    print(ledger.text())
    assert ledger.sound, ledger.text()
    assert ledger.accepted == plan.messages
    assert sum(ledger.kills.values()) >= 5, "the round was too calm to prove anything"
