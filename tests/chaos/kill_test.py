"""One round: messages flow, everything is killed at random, then every message is accounted for."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

from chaos.parts import Cluster, Part
from chaos.traffic import AWAY, Ledger, Plan, Traffic
from support.system import Refused


class KillTest:
    def __init__(self, plan: Plan, folder: Path, *, say: Callable[[str], None] = print) -> None:
        self._plan = plan
        self._say = say
        self._cluster = Cluster(folder)
        self._ledger = Ledger(seed=plan.seed)
        self._traffic = Traffic(plan, self._cluster, self._ledger)
        self._calm = threading.Event()

    def run(self) -> Ledger:
        began = time.monotonic()
        cluster, traffic = self._cluster, self._traffic
        cluster.start()
        try:
            traffic.link_phones()
            self._say(f"seed {self._plan.seed}: {len(traffic.senders)} sessions connected, now sending and killing")
            killer = threading.Thread(target=self._kill_until_calm)
            traffic.begin()
            killer.start()
            traffic.join()
            self._calm.set()
            killer.join()
            self._say(f"seed {self._plan.seed}: all accepted, {sum(self._ledger.kills.values())} kills; settling")
            traffic.settle()
            traffic.draw_up()
        finally:
            cluster.stop()
        self._ledger.seconds = time.monotonic() - began
        return self._ledger

    def _kill_until_calm(self) -> None:
        chance = random.Random(f"{self._plan.seed}-killer")
        revive: list[tuple[float, Part]] = []
        proxies_up_at: list[tuple[float, int]] = []
        while not self._calm.wait(chance.uniform(*self._plan.kill_every_s)):
            self._revive(revive)
            self._raise_proxies(proxies_up_at)
            self._kill_one(chance, revive, proxies_up_at)
        for _, part in revive:
            part.start()
        for part in self._cluster.parts:
            part.wait_ready()
        self._cluster.simulator.post("/faults", {"clear": True})

    def _kill_one(
        self, chance: random.Random, revive: list[tuple[float, Part]], proxies_up_at: list[tuple[float, int]]
    ) -> None:
        cluster = self._cluster
        victim = chance.choices(
            ["worker", "gateway", "dispatcher", "orchestrator", "store", "proxy"], [5, 2, 2, 2, 1, 2]
        )[0]
        if victim == "worker":
            if not cluster.kill_worker(chance):
                return
        elif victim == "store":
            if not cluster.kill_store():
                return
        elif victim == "proxy":
            try:
                ports = cluster.proxies_in_use()
                port = chance.choice(ports)
                cluster.simulator.post("/faults", {"proxyDown": port})
                proxies_up_at.append((time.monotonic() + chance.uniform(0.5, 3.0), port))
            except (*AWAY, Refused, IndexError):
                return
        else:
            group = {"gateway": cluster.gateways, "dispatcher": cluster.dispatchers,
                     "orchestrator": [cluster.orchestrator]}[victim]  # fmt: skip
            part = chance.choice(group)
            if not part.alive():
                return
            part.end(signal.SIGKILL)
            revive.append((time.monotonic() + chance.uniform(0.0, 1.5), part))
        self._ledger.kills[victim] += 1

    def _revive(self, revive: list[tuple[float, Part]]) -> None:
        for due, part in list(revive):
            if time.monotonic() >= due:
                part.start()
                revive.remove((due, part))
        # one whose store was killed while it started ends by itself: as a service manager would, start it again
        waiting = [part for _, part in revive]
        for part in self._cluster.parts:
            if part not in waiting and not part.alive():
                part.start()

    def _raise_proxies(self, proxies_up_at: list[tuple[float, int]]) -> None:
        for due, port in list(proxies_up_at):
            if time.monotonic() >= due:
                self._cluster.simulator.post("/faults", {"proxyUp": port})
                proxies_up_at.remove((due, port))
