"""A fault that is switched on and off while messages flow, and the round around it."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from chaos.parts import Cluster
from chaos.traffic import AWAY, Ledger, Plan, Traffic
from support.system import Refused, wait_for

_EVENT = re.compile(r"\[(?:warning|error|critical)\s*\] (\w+)(?:.*service=(\w+))?")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MOST_OF_A_LINE = 20  # of one process: more of the same line is a storm
_MOST_GROWTH_MB = 60
_AGAIN_S = 60.0


@dataclass(frozen=True)
class Scene:
    """What a fault may touch."""

    cluster: Cluster
    traffic: Traffic
    ledger: Ledger
    say: Callable[[str], None]

    def until_accepted(self, share: float, of: int) -> None:
        """The fault begins and ends while messages flow."""
        wait_for(lambda: self.traffic.accepted >= share * of or not self.traffic.flows, what="messages to flow",
                 timeout_s=180)  # fmt: skip

    def note(self, text: str) -> None:
        self.ledger.notes.append(text)


class Fault:
    """Subclasses say what is done, what may be answered meanwhile and how long an answer may take."""

    name: ClassVar[str]
    settings: ClassVar[Mapping[str, str]] = {}
    refusals: ClassVar[frozenset[str]] = frozenset()
    must_refuse: ClassVar[bool] = True  # a fault that nobody noticed proves nothing
    longest_answer_s: ClassVar[float] = 15.0
    workers_stay: ClassVar[bool] = True  # no worker is replaced by it
    longest_pause_s: ClassVar[float | None] = None  # of a client, where nothing is refused and so nothing slows it down

    def why_not(self) -> str:
        """A sentence when it cannot be made here."""
        return ""

    @contextlib.contextmanager
    def place(self, folder: Path) -> Iterator[Path]:
        """Where the data folder lies."""
        yield folder / "data"

    def strike(self, scene: Scene, plan: Plan) -> None:
        raise NotImplementedError

    def findings(self, scene: Scene) -> list[str]:
        """What is wrong besides the messages."""
        return []

    def prove(self, scene: Scene) -> None:
        """Done last, to see that all sessions connect once more after it."""


class FaultRound:
    def __init__(self, fault: Fault, plan: Plan, folder: Path, *, say: Callable[[str], None] = print) -> None:
        self._fault = fault
        self._plan = replace(plan, longest_pause_s=fault.longest_pause_s) if fault.longest_pause_s else plan
        self._folder = folder
        self._say = say

    def run(self) -> Ledger:
        ledger = Ledger(seed=self._plan.seed)
        began = time.monotonic()
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._fault.place(self._folder) as data:
            cluster = Cluster(self._folder, data=data, settings=self._fault.settings)
            scene = Scene(cluster, Traffic(self._plan, cluster, ledger), ledger, self._say)
            try:
                cluster.start()
                self._play(scene)
            finally:
                cluster.stop()
        ledger.seconds = time.monotonic() - began
        return ledger

    def _play(self, scene: Scene) -> None:
        cluster, traffic, ledger = scene.cluster, scene.traffic, scene.ledger
        traffic.link_phones()
        workers, memory = cluster.worker_pids(), _memory_mb(cluster)
        self._say(f"{self._fault.name}: {len(traffic.senders)} sessions connected, now sending")
        traffic.begin()
        self._fault.strike(scene, self._plan)
        struck = time.monotonic()
        traffic.join()
        traffic.settle()
        ledger.notes.append(f"all settled {time.monotonic() - struck:.0f} s after the fault")
        traffic.draw_up()
        ledger.wrong_besides += self._fault.findings(scene)
        ledger.wrong_besides += self._refusals(ledger)
        ledger.wrong_besides += _not_connected(scene)
        ledger.wrong_besides += _storms(cluster)
        if self._fault.workers_stay and cluster.worker_pids() != workers:
            ledger.wrong_besides.append(f"workers were replaced: {workers} → {cluster.worker_pids()}")
        for name, now in _memory_mb(cluster).items():
            if now - memory[name] > _MOST_GROWTH_MB:
                ledger.wrong_besides.append(f"{name} grew from {memory[name]} to {now} MB")
        self._fault.prove(scene)
        ledger.wrong_besides += _not_connected(scene)

    def _refusals(self, ledger: Ledger) -> list[str]:
        found = [f"refused with {name}" for name in sorted(ledger.refusals.keys() - self._fault.refusals)]
        if self._fault.must_refuse and not ledger.refusals:
            found.append("nothing was refused: the fault did not bite")
        if ledger.slowest_answer_s > self._fault.longest_answer_s:
            found.append(f"an answer took {ledger.slowest_answer_s:.1f} s")
        return found


def _not_connected(scene: Scene) -> list[str]:
    """Everything goes on by itself: all sessions connect again."""
    seen: dict[str, str] = {}

    def all_connected() -> bool:
        try:
            for session_id in scene.traffic.senders:
                seen[session_id] = scene.cluster.api.get(f"/api/sessions/{session_id}")["status"]
        except (*AWAY, Refused):
            return False
        return set(seen.values()) == {"connected"}

    try:
        wait_for(all_connected, what="all sessions", timeout_s=_AGAIN_S, pause_s=0.5)
    except AssertionError:
        return [f"{name} is {status}" for name, status in seen.items() if status != "connected"]
    return []


def _storms(cluster: Cluster) -> list[str]:
    found: list[str] = []
    for part in cluster.parts:
        lines = _COLOURS.sub("", part.log.read_text(errors="replace"))
        counted = Counter(" ".join(found) for found in _EVENT.findall(lines))
        found += [f"{part.name} said {event} {n} times" for event, n in counted.items() if n > _MOST_OF_A_LINE]
    return found


def _memory_mb(cluster: Cluster) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in cluster.parts:
        with contextlib.suppress(OSError):
            pages = int(Path(f"/proc/{part.pid}/statm").read_text().split()[1])
            sizes[part.name] = pages * 4096 // 2**20
    return sizes
