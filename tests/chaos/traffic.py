"""The traffic of a round: phones are linked, messages flow, and in the end every one of them is accounted for."""

from __future__ import annotations

import random
import threading
import time
import urllib.error
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from chaos.parts import Cluster
from support.system import Http, Refused, wait_for

SENT = {"sent", "delivered", "read", "played"}
AWAY = (urllib.error.URLError, OSError, ConnectionError, TimeoutError)
_UNDER_WAY = {"accepted", "queued", "outbox", "claimed"}
_NO_LIMITS = {"daily": None, "perMinute": None, "minDelayMs": 0, "maxDelayMs": 0, "hours": None, "burst": None}
# One sender is paced. It types before each message, so it gets every tenth recipient, and these get fewer messages.
_MIN_DELAY_MS, _PER_MINUTE, _PACED_SHARE = 100, 60, 10
_PACED = {**_NO_LIMITS, "perMinute": _PER_MINUTE, "minDelayMs": _MIN_DELAY_MS, "maxDelayMs": 2 * _MIN_DELAY_MS}
_CLOCK_MS = 5  # two programs read the same clock at slightly different moments
_CLIENTS = 4


@dataclass(frozen=True)
class Plan:
    seed: int
    sessions: int = 5
    messages: int = 1000
    recipients: int = 20
    kill_every_s: tuple[float, float] = (0.3, 1.2)
    longest_pause_s: float = 0.25  # of a client between two messages: a round should last long enough for the fault
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
    wrong_besides: list[str] = field(default_factory=list)  # what a fault's own checks found
    paced: int = 0  # messages of the sender with limits
    statuses: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    slowest_answer_s: float = 0.0
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def sound(self) -> bool:
        return not (self.missing or self.doubled or self.out_of_order or self.wrong_status or self.over_the_limit
                    or self.wrong_besides)  # fmt: skip

    def text(self, title: str = "") -> str:
        kills = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        what = f"{sum(self.kills.values())} kills ({kills})" if self.kills else title
        refusals = ", ".join(f"{name} {count}" for name, count in sorted(self.refusals.items())) or "none"
        lines = [
            f"seed {self.seed}: {self.accepted} accepted in {self.seconds:.0f} s, {what}",
            f"  arrived exactly once {self.arrived_once}, of these sent again with the same id {self.repeats_dropped}",
            f"  lost {len(self.missing)}, doubled {len(self.doubled)}, out of order {len(self.out_of_order)}, "
            f"wrong status {len(self.wrong_status)}; {dict(self.statuses)}",
            f"  over the limit {len(self.over_the_limit)} of {self.paced} messages of the paced sender",
            f"  refused meanwhile: {refusals}; slowest answer {self.slowest_answer_s:.1f} s",
            *(f"  {note}" for note in self.notes),
        ]
        for name in ("missing", "doubled", "out_of_order", "wrong_status", "over_the_limit", "wrong_besides"):
            lines += [f"  {name}: {entry}" for entry in getattr(self, name)[:10]]
        return "\n".join(lines)


class Traffic:
    """Clients that send with idempotency keys until each message is accepted; then the accounts."""

    def __init__(self, plan: Plan, cluster: Cluster, ledger: Ledger) -> None:
        self._plan = plan
        self._cluster = cluster
        self._ledger = ledger
        self._accepted: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._clients: list[threading.Thread] = []
        self.senders: list[str] = []

    # before ------------------------------------------------------------------------------------------------------
    def link_phones(self) -> None:
        api, simulator = self._cluster.api, self._cluster.simulator
        for number in range(self._plan.recipients):
            simulator.post("/phones", {"phone": _recipient(number)})
        for number in range(self._plan.sessions):
            session_id = str(api.post("/api/sessions/provision", {"sessionId": f"chaos_{number}"})["sessionId"])
            code = wait_for(lambda s=session_id: _code(api, s), what="a code")  # type: ignore[misc]
            simulator.post(f"/phones/{_sender(number)}/scan", {"qr": code})
            wait_for(lambda s=session_id: api.get(f"/api/sessions/{s}")["status"] == "connected",  # type: ignore[misc]
                     what="connected")  # fmt: skip
            api.call("PUT", f"/api/anti-ban/sessions/{session_id}/limits", _NO_LIMITS if number else _PACED)
            self.senders.append(session_id)

    # while -------------------------------------------------------------------------------------------------------
    def begin(self) -> None:
        self._clients = [threading.Thread(target=self._send_all, args=(number,)) for number in range(_CLIENTS)]
        for thread in self._clients:
            thread.start()

    def join(self) -> None:
        for thread in self._clients:
            thread.join()

    @property
    def accepted(self) -> int:
        return len(self._accepted)

    @property
    def flows(self) -> bool:
        """Whether some client still sends."""
        return any(thread.is_alive() for thread in self._clients)

    def _send_all(self, client: int) -> None:
        """Each client has recipients of its own, so that the order per recipient is known."""
        chance = random.Random(f"{self._plan.seed}-client-{client}")
        mine = [n for n in range(self._plan.recipients) if n % _CLIENTS == client]
        for number in range(client, self._plan.messages, _CLIENTS):
            recipient = chance.choices(mine, [0.4 if n % _PACED_SHARE == 0 else 1.0 for n in mine])[0]
            body = {
                "to": _recipient(recipient),
                "message": f"{number:06}",
                "sessionId": _sender_of(recipient, self.senders),
            }
            self._send_until_accepted(chance, body, key=f"{self._plan.seed}-{number}")
            time.sleep(chance.uniform(0.0, self._plan.longest_pause_s))

    def _send_until_accepted(self, chance: random.Random, body: dict[str, Any], *, key: str) -> None:
        while True:
            asked = time.monotonic()
            try:
                answer = self._cluster.gateway(chance).post("/api/v1/send", body, Idempotency_Key=key)
            except AWAY as error:
                self._note("no answer: " + type(error).__name__, asked)
            except Refused as error:
                if error.status < 500:
                    raise
                self._note(f"{error.status} {error.code}", asked)
            else:
                self._note("", asked)
                with self._lock:
                    self._accepted[answer["messageId"]] = body
                return
            time.sleep(0.05)

    def _note(self, refusal: str, asked: float) -> None:
        with self._lock:
            if refusal:
                self._ledger.refusals[refusal] += 1
            self._ledger.slowest_answer_s = max(self._ledger.slowest_answer_s, time.monotonic() - asked)

    # after -------------------------------------------------------------------------------------------------------
    def settle(self) -> None:
        """Until every message has ended, or the time is over: then the ledger tells."""
        deadline = time.monotonic() + self._plan.settle_s
        waiting = set(self._accepted)
        while waiting and time.monotonic() < deadline:
            for message_id in list(waiting):
                try:
                    status = self._cluster.api.get(f"/api/v1/messages/{message_id}")["status"]
                except (*AWAY, Refused):
                    break
                if status not in _UNDER_WAY:
                    waiting.discard(message_id)
            time.sleep(0.2)

    def draw_up(self) -> None:
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
