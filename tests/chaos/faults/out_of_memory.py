"""The store has no memory left: it refuses what would make it grow and lets go what makes it smaller."""

from __future__ import annotations

import time

from chaos.faults.fault import Fault, Scene
from chaos.traffic import Plan


class OutOfMemory(Fault):
    name = "out-of-memory"
    refusals = frozenset({"503 STORE_FULL"})
    longest_answer_s = 5.0

    def __init__(self, *, lasting_s: float = 8.0, times: int = 2) -> None:
        self._lasting_s = lasting_s
        self._times = times

    def strike(self, scene: Scene, plan: Plan) -> None:
        with scene.cluster.store() as store:
            for number in range(self._times):
                scene.until_accepted((number + 1) / (self._times + 2), plan.messages)
                before = scene.traffic.accepted
                store.config_set("maxmemory", 1)
                try:
                    time.sleep(self._lasting_s)
                finally:
                    store.config_set("maxmemory", 0)
                scene.note(f"no memory for {self._lasting_s:.0f} s: {scene.traffic.accepted - before} accepted")
