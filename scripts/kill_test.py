"""The published kill test: rounds with different seeds, a ledger for each; exit 1 if anything is lost or doubled."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from chaos.kill_test import KillTest, Plan


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--seed", type=int, help="replays one round")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a round that failed")
    wanted = parser.parse_args()
    first = wanted.seed if wanted.seed is not None else random.SystemRandom().randrange(1_000_000)
    rounds = 1 if wanted.seed is not None else wanted.rounds
    failed: list[int] = []
    for seed in range(first, first + rounds):
        folder = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
        plan = Plan(seed=seed, messages=wanted.messages, sessions=wanted.sessions)
        ledger = KillTest(plan, folder, say=lambda text: print(text, flush=True)).run()
        print(ledger.text(), flush=True)
        if not ledger.sound:
            failed.append(seed)
        if ledger.sound or not wanted.keep:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"  kept: {folder}")
    print(f"\n{rounds} rounds, {rounds - len(failed)} sound" + (f", failed seeds: {failed}" if failed else ""))
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
