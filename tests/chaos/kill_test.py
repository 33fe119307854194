"""One round: messages flow, everything is killed at random, then every message is accounted for."""

from __future__ import annotations

import random
import signal
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.parts import Cluster, Part
from support.system import Http, Refused, wait_for

SENT = {"sent", "delivered", "read", "played"}
_NO_LIMITS = {"daily": None, "perMinute": None, "minDelayMs": 0, "maxDelayMs": 0, "hours": None, "burst": None}
# One sender is paced. It types before each message, so it gets every tenth recipient, and these get fewer messages.
_MIN_DELAY_MS, _PER_MINUTE, _PACED_SHARE = 100, 60, 10
_PACED = {**_NO_LIMITS, "perMinute": _PER_MINUTE, "minDelayMs": _MIN_DELAY_MS, "maxDelayMs": 2 * _MIN_DELAY_MS}
_CLOCK_MS = 5  # two programs read the same clock at slightly different moments
_CLIENTS = 4
_AWAY = (urllib.error.URLError, OSError, ConnectionError, TimeoutError)


@dataclass(frozen=True)
class Plan:
    seed: int
    sessions: int = 5
    messages: int = 1000
    recipients: int = 20
    kill_every_s: tuple[float, float] = (0.3, 1.2)
    longest_pause_s: float = 0.25  # of a client between two messages: a round should last long enough to be killed
    settle_s: float = 120.0


@dataclass
class Ledger:
    """What came out."""

    seed: int
    accepted: int = 0
    arrived_once: int = 0
    repeats_dropped: int = 0  # arrived twice with one id: the receiving app shows it once
    missing: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    wrong_status: list[str] = field(default_factory=list)
    over_the_limit: list[str] = field(default_factory=list)
    paced: int = 0  # messages of the sender with limits
    statuses: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        return not (self.missing or self.doubled or self.out_of_order or self.wrong_status or self.over_the_limit)

    def text(self) -> str:
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        lines = [
            f"seed {self.seed}: {self.accepted} accepted in {self.seconds:.0f} s, "
            f"{sum(self.kills.values())} kills ({kills})",
            f"  arrived exactly once {self.arrived_once}, of these sent again with the same id {self.repeats_dropped}",
            f"  lost {len(self.missing)}, doubled {len(self.doubled)}, out of order {len(self.out_of_order)}, "
            f"wrong status {len(self.wrong_status)}; {dict(self.statuses)}",
            f"  over the limit {len(self.over_the_limit)} of {self.paced} messages of the paced sender",
        ]
        for name in ("missing", "doubled", "out_of_order", "wrong_status", "over_the_limit"):
            lines += [f"  {name}: {entry}" for entry in getattr(self, name)[:10]]
        return "\n".join(lines)


class KillTest:
    def __init__(self, plan: Plan, folder: Path, *, say: Callable[[str], None] = print) -> None:
        self._plan = plan
        self._say = say
        self._cluster = Cluster(folder)
        self._ledger = Ledger(seed=plan.seed)
        self._accepted: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._calm = threading.Event()

    def run(self) -> Ledger:
        began = time.monotonic()
        cluster = self._cluster
        cluster.start()
        try:
            senders = self._link_phones()
            self._say(f"seed {self._plan.seed}: {len(senders)} sessions connected, now sending and killing")
            clients = [threading.Thread(target=self._send_all, args=(number, senders)) for number in range(_CLIENTS)]
            killer = threading.Thread(target=self._kill_until_calm)
            for thread in (*clients, killer):
                thread.start()
            for thread in clients:
                thread.join()
            self._calm.set()
            killer.join()
            self._say(f"seed {self._plan.seed}: all accepted, {sum(self._ledger.kills.values())} kills; settling")
            self._settle()
            self._draw_up()
        finally:
            cluster.stop()
        self._ledger.seconds = time.monotonic() - began
        return self._ledger

    # before ------------------------------------------------------------------------------------------------------
    def _link_phones(self) -> list[str]:
        api, simulator = self._cluster.api, self._cluster.simulator
        for number in range(self._plan.recipients):
            simulator.post("/phones", {"phone": _recipient(number)})
        senders: list[str] = []
        for number in range(self._plan.sessions):
            session_id = str(api.post("/api/sessions/provision", {"sessionId": f"chaos_{number}"})["sessionId"])
            code = wait_for(lambda s=session_id: _code(api, s), what="a code")  # type: ignore[misc]
            simulator.post(f"/phones/{_sender(number)}/scan", {"qr": code})
            wait_for(lambda s=session_id: api.get(f"/api/sessions/{s}")["status"] == "connected",  # type: ignore[misc]
                     what="connected")  # fmt: skip
            api.call("PUT", f"/api/anti-ban/sessions/{session_id}/limits", _NO_LIMITS if number else _PACED)
            senders.append(session_id)
        return senders

    # while -------------------------------------------------------------------------------------------------------
    def _send_all(self, client: int, senders: list[str]) -> None:
        """Each client has recipients of its own, so that the order per recipient is known."""
        chance = random.Random(f"{self._plan.seed}-client-{client}")
        mine = [n for n in range(self._plan.recipients) if n % _CLIENTS == client]
        for number in range(client, self._plan.messages, _CLIENTS):
            recipient = chance.choices(mine, [0.4 if n % _PACED_SHARE == 0 else 1.0 for n in mine])[0]
            body = {
                "to": _recipient(recipient),
                "message": f"{number:06}",
                "sessionId": _sender_of(recipient, senders),
            }
            self._send_until_accepted(chance, body, key=f"{self._plan.seed}-{number}")
            time.sleep(chance.uniform(0.0, self._plan.longest_pause_s))

    def _send_until_accepted(self, chance: random.Random, body: dict[str, Any], *, key: str) -> None:
        while True:
            try:
                gateway = self._cluster.gateway(chance)
                answer = gateway.post("/api/v1/send", body, Idempotency_Key=key)
            except _AWAY:
                time.sleep(0.05)
            except Refused as error:
                if error.status < 500:
                    raise
                time.sleep(0.05)
            else:
                with self._lock:
                    self._accepted[answer["messageId"]] = body
                return

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
            except (*_AWAY, Refused, IndexError):
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

    def _raise_proxies(self, proxies_up_at: list[tuple[float, int]]) -> None:
        for due, port in list(proxies_up_at):
            if time.monotonic() >= due:
                self._cluster.simulator.post("/faults", {"proxyUp": port})
                proxies_up_at.remove((due, port))

    # after -------------------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Until every message has ended, or the time is over: then the ledger tells."""
        deadline = time.monotonic() + self._plan.settle_s
        waiting = set(self._accepted)
        while waiting and time.monotonic() < deadline:
            for message_id in list(waiting):
                try:
                    status = self._cluster.api.get(f"/api/v1/messages/{message_id}")["status"]
                except (*_AWAY, Refused):
                    break
                if status not in {"accepted", "queued", "outbox", "claimed"}:
                    waiting.discard(message_id)
            time.sleep(0.2)

    def _draw_up(self) -> None:
        ledger, api = self._ledger, self._cluster.api
        ledger.accepted = len(self._accepted)
        inboxes = {
            _recipient(n): self._cluster.simulator.get(f"/phones/{_recipient(n)}/inbox")
            for n in range(self._plan.recipients)
        }
        by_id = {entry["id"]: entry for inbox in inboxes.values() for entry in inbox}
        texts = Counter(entry["text"] for inbox in inboxes.values() for entry in inbox)
        for message_id, body in self._accepted.items():
            story = api.get(f"/api/v1/messages/{message_id}")
            ledger.statuses[story["status"]] += 1
            entry = by_id.get(story["waMessageId"])
            name = f"{message_id} {body['message']} → {body['to']} ({story['status']}, {story['reason']})"
            if entry is None:
                ledger.missing.append(name)
            elif texts[body["message"]] != 1 or entry["text"] != body["message"]:
                ledger.doubled.append(name)
            else:
                ledger.arrived_once += 1
                ledger.repeats_dropped += entry["copies"] > 1
            if story["status"] not in SENT:
                ledger.wrong_status.append(name)
        for phone, inbox in inboxes.items():
            order = [entry["text"] for entry in inbox]
            if order != sorted(order):
                ledger.out_of_order.append(f"{phone}: {order}")
        came = sorted(e["at"] for inbox in inboxes.values() for e in inbox if e["from"] == _sender(0))
        ledger.paced = len(came)
        ledger.over_the_limit = over_the_limit(came, per_minute=_PER_MINUTE, min_delay_ms=_MIN_DELAY_MS - _CLOCK_MS)


def over_the_limit(times_ms: list[int], *, per_minute: int, min_delay_ms: int) -> list[str]:
    """What came too soon after the one before, or was one too many within a minute."""
    found: list[str] = []
    for index, at in enumerate(times_ms):
        if index and at - times_ms[index - 1] < min_delay_ms:
            found.append(f"{at}: {at - times_ms[index - 1]} ms after the one before")
        if index >= per_minute and at - times_ms[index - per_minute] < 60_000:
            found.append(f"{at}: more than {per_minute} within a minute")
    return found


def _sender_of(recipient: int, senders: list[str]) -> str:
    """Always the same one, so that the order per recipient is known."""
    if recipient % _PACED_SHARE == 0 or len(senders) == 1:
        return senders[0]
    return senders[1 + recipient % (len(senders) - 1)]


def _sender(number: int) -> str:
    return f"97250{number:07}"


def _recipient(number: int) -> str:
    return f"97252{number:07}"


def _code(api: Http, session_id: str) -> str | None:
    try:
        return str(api.get(f"/api/sessions/{session_id}/qr")["qr"])
    except Refused:
        return None
