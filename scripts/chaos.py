"""Kills every part and brings faults of the surroundings while messages flow; prints a ledger of each round.

    chaos.py                    everything: rounds of the kill test, then each fault
    chaos.py kill               the kill test alone
    chaos.py slow-store …       these faults alone

Exit status 1 if a message was lost, doubled, out of order, or anything else was not as promised.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from chaos.faults import ALL
from chaos.faults.fault import FaultRound
from chaos.kill_test import KillTest
from chaos.traffic import Ledger, Plan

_FAULTS = {fault.name: fault for fault in ALL}
_FAULT_MESSAGES = 300
_ENGINE = "docker-engine"
_ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    wanted = _arguments()
    seed = wanted.seed if wanted.seed is not None else random.SystemRandom().randrange(1_000_000)
    rounds = 1 if wanted.seed is not None else wanted.rounds
    failed: list[str] = []
    done = skipped = 0
    for name in wanted.what:
        if name == "kill":
            for one in range(seed, seed + rounds):
                done += 1
                if not _kill_round(one, wanted):
                    failed.append(f"kill --seed {one}")
        elif name == _ENGINE:
            done += 1
            if not _engine_round():
                failed.append(_ENGINE)
        elif why := _FAULTS[name]().why_not():
            skipped += 1
            print(f"{name}: SKIPPED, {why}", flush=True)
        else:
            done += 1
            if not _fault_round(name, seed, wanted):
                failed.append(f"{name} --seed {seed}")
    print(f"\n{done} rounds, {done - len(failed)} sound" + (f", {skipped} skipped" if skipped else "")
          + (f"; failed: {', '.join(failed)}" if failed else ""))  # fmt: skip
    raise SystemExit(1 if failed else 0)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    everything = ["kill", *_FAULTS, _ENGINE]
    parser.add_argument("what", nargs="*", default=everything, help=", ".join(everything))
    parser.add_argument("--rounds", type=int, default=3, help="of the kill test")
    parser.add_argument("--messages", type=int, help="of a round")
    parser.add_argument("--sessions", type=int, default=5)
    parser.add_argument("--seed", type=int, help="replays one round")
    parser.add_argument("--keep", action="store_true", help="keep the folder of a round that failed")
    wanted = parser.parse_args()
    if unknown := [name for name in wanted.what if name not in everything]:
        parser.error(f"there is no {', '.join(unknown)}; choose from {', '.join(everything)}")
    return wanted


def _kill_round(seed: int, wanted: argparse.Namespace) -> bool:
    plan = Plan(seed=seed, messages=wanted.messages or 1000, sessions=wanted.sessions)
    return _round(f"chaos-{seed}-", lambda folder: KillTest(plan, folder, say=_say).run(), "", keep=wanted.keep)


def _fault_round(name: str, seed: int, wanted: argparse.Namespace) -> bool:
    plan = Plan(seed=seed, messages=wanted.messages or _FAULT_MESSAGES, sessions=wanted.sessions)
    return _round(
        f"chaos-{name}-", lambda folder: FaultRound(_FAULTS[name](), plan, folder, say=_say).run(), name,
        keep=wanted.keep,
    )  # fmt: skip


def _engine_round() -> bool:
    """A deployment of its own in containers; skipped by the test itself, with a line, where there is no Docker."""
    print(f"{_ENGINE}: a deployment by docker compose on a private engine …", flush=True)
    test = ["tests/docker/test_compose.py", "-k", "engine", "-q", "-p", "no:cacheprovider"]
    return subprocess.run([sys.executable, "-m", "pytest", *test], cwd=_ROOT, check=False).returncode == 0


def _round(prefix: str, run: Callable[[Path], Ledger], title: str, *, keep: bool) -> bool:
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    ledger = run(folder)
    print(ledger.text(title), flush=True)
    if ledger.sound or not keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"  kept: {folder}")
    return ledger.sound


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
