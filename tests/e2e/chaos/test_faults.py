"""A short form of the cheap faults, one after the other in one cluster (`make chaos` runs all of them, for longer)."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

from chaos.faults import FullDisk, OutOfMemory, SlowStore
from chaos.faults.fault import Fault, FaultRound, Scene
from chaos.traffic import Plan


class MemorySpeedDisk(Fault):
    name = "memory, speed, disk"
    refusals = OutOfMemory.refusals | FullDisk.refusals

    def __init__(self) -> None:
        self._disk = FullDisk(lasting_s=3.0)
        self.with_disk = not self._disk.why_not()
        self._faults: list[Fault] = [OutOfMemory(lasting_s=2.0, times=1), SlowStore(hangs_s=(2.0,), pause_s=1.0)]
        if self.with_disk:
            self._faults.append(self._disk)

    @contextlib.contextmanager
    def place(self, folder: Path) -> Iterator[Path]:
        with self._disk.place(folder) if self.with_disk else super().place(folder) as data:
            yield data

    def strike(self, scene: Scene, plan: Plan) -> None:
        for fault in self._faults:
            fault.strike(scene, plan)

    def prove(self, scene: Scene) -> None:
        for fault in self._faults:
            fault.prove(scene)


def test_nothing_is_lost_when_the_store_is_full_or_hangs_and_the_disk_is_full(tmp_path: Path) -> None:
    fault = MemorySpeedDisk()
    plan = Plan(seed=random.SystemRandom().randrange(1_000_000), sessions=2, messages=120, recipients=12,
                longest_pause_s=0.1)  # fmt: skip
    ledger = FaultRound(fault, plan, tmp_path).run()
    print(ledger.text(fault.name))
    assert ledger.sound, ledger.text(fault.name)
    assert ledger.accepted == plan.messages
    assert ledger.refusals["503 STORE_FULL"] > 0
    if fault.with_disk:
        assert ledger.refusals["503 STORE_UNAVAILABLE"] > 0
