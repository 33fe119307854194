"""The store hangs: for moments, for longer than a caller waits, and by order (CLIENT PAUSE)."""

from __future__ import annotations

import os
import signal
import time

from chaos.faults.fault import Fault, Scene
from chaos.traffic import Plan
from support.system import pid_in


class SlowStore(Fault):
    name = "slow-store"
    refusals = frozenset({"503 STORE_UNAVAILABLE"})
    longest_answer_s = 14.0  # ten for the answer, three for a new connection

    def __init__(self, *, hangs_s: tuple[float, ...] = (1.0, 3.0, 16.0, 4.0), pause_s: float = 5.0) -> None:
        self._hangs_s = hangs_s
        self._pause_s = pause_s
        self.must_refuse = max(hangs_s) > self.longest_answer_s  # type: ignore[misc]

    def strike(self, scene: Scene, plan: Plan) -> None:
        pid = pid_in(scene.cluster.store_pid_file)
        for number, seconds in enumerate(self._hangs_s):
            scene.until_accepted((number + 1) / (len(self._hangs_s) + 3), plan.messages)
            os.kill(pid, signal.SIGSTOP)
            try:
                time.sleep(seconds)
            finally:
                os.kill(pid, signal.SIGCONT)
            time.sleep(0.5)
        with scene.cluster.store() as store:
            store.execute_command("CLIENT", "PAUSE", int(self._pause_s * 1000), "ALL")
        scene.note(f"the store hung {', '.join(f'{s:.0f}' for s in self._hangs_s)} and {self._pause_s:.0f} s")

    def findings(self, scene: Scene) -> list[str]:
        pid = pid_in(scene.cluster.store_pid_file)
        return [] if pid else ["the store is gone"]
