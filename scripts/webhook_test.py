"""10,000 messages pour in while the webhook's receiver fails half of its answers, is away for a while, and the control
plane is killed twice. Prints what the receiver ended with; exit status 1 when anything is missing or out of order."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from chaos.webhook_test import Plan, WebhookTest


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wa-webhooks-") as folder:
        plan = Plan(seed=given.seed, messages=given.messages, sessions=given.sessions)
        ledger = WebhookTest(plan, Path(folder)).run()
    print(ledger.text())
    print("SOUND" if ledger.sound else "NOT SOUND")
    sys.exit(0 if ledger.sound else 1)


if __name__ == "__main__":
    main()
