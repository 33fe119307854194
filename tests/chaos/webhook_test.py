"""Messages pour in, the webhook's receiver fails and goes away, the control plane is killed: is every event there?"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.receiver import Receiver
from support.system import Refused, System, wait_for

_AWAY = (urllib.error.URLError, OSError, ConnectionError, TimeoutError)


@dataclass(frozen=True)
class Plan:
    seed: int = 1
    messages: int = 10_000
    sessions: int = 10
    writers: int = 4
    fails: float = 0.5  # share of the receiver's answers
    kills: tuple[float, ...] = (0.3, 0.65)  # when this share of the messages has arrived at the receiver
    down_at: float = 0.45  # the receiver goes away
    down_s: float = 10.0
    settle_s: float = 600.0


@dataclass
class Ledger:
    """What the receiver ended with."""

    seed: int
    written: int = 0
    seconds: float = 0.0
    first: int = 0
    last: int = 0
    tries: int = 0
    received: int = 0
    repeats: int = 0
    kills: int = 0
    missing_numbers: list[int] = field(default_factory=list)
    missing_messages: list[str] = field(default_factory=list)
    out_of_order: list[str] = field(default_factory=list)
    bad_signatures: int = 0
    types: Counter[str] = field(default_factory=Counter)

    @property
    def sound(self) -> bool:
        return not (self.missing_numbers or self.missing_messages or self.out_of_order or self.bad_signatures)

    def text(self) -> str:
        most = ", ".join(f"{kind} {count}" for kind, count in self.types.most_common(6))
        return "\n".join(
            [
                f"seed {self.seed}: {self.written} messages written to phones and delivered in {self.seconds:.0f} s, "
                f"control plane killed {self.kills} times, the receiver down once",
                f"  events {self.first} to {self.last}: {self.last - self.first + 1}; answers {self.tries}, "
                f"of these failed {self.tries - self.received}, taken {self.received}, of these repeats {self.repeats}",
                f"  missing numbers {len(self.missing_numbers)} {self.missing_numbers[:5]}, "
                f"missing messages {len(self.missing_messages)}, out of order {len(self.out_of_order)} "
                f"{self.out_of_order[:3]}, bad signatures {self.bad_signatures}",
                f"  {most}",
            ]
        )


class ReceiverThread:
    """A receiver beside the test, in a loop of its own; it lives through everything."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    @contextlib.contextmanager
    def running(self) -> Iterator[Receiver]:
        self._thread.start()
        self.do(self.receiver.up())
        try:
            yield self.receiver
        finally:
            self.do(self.receiver.down())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=10)
            self._loop.close()


class WebhookTest:
    def __init__(self, plan: Plan, folder: Path, *, say: Callable[[str], None] = print) -> None:
        self._plan = plan
        self._say = say
        self._ledger = Ledger(seed=plan.seed)
        self._chance = random.Random(plan.seed)
        self._system = System(
            folder,
            SIMULATOR_PROXIES=max(2, -(-plan.sessions // 4)),
            PROXY_TIMEOUT_MS=5000,
            PROXY_BAD_AFTER=100,
            WEBHOOK_ALLOW_PRIVATE="127.0.0.0/8",
            WORKER_ENV="RECONNECT_BASE_MS=200 RECONNECT_MAX_MS=1000",
        )
        self._receiver = Receiver(self._decide)
        self._written: list[str] = []
        self._lock = threading.Lock()

    def run(self) -> Ledger:
        plan, ledger = self._plan, self._ledger
        thread = ReceiverThread(self._receiver)
        with thread.running() as receiver, self._system as system:
            first = system.api.get("/api/v1/events?limit=1000")["last"] + 1
            made = system.api.post("/api/v1/webhooks", {"url": receiver.url, "after": first - 1})
            receiver.secret = made["secret"]
            phones = [(system.connected(phone), phone) for phone in (f"97250{n:07}" for n in range(plan.sessions))]
            self._say(f"{len(phones)} sessions connected, now writing {plan.messages} messages")
            began = time.monotonic()
            writers = [threading.Thread(target=self._write, args=(n, phones)) for n in range(plan.writers)]
            for writer in writers:
                writer.start()
            self._disturb(thread)
            for writer in writers:
                writer.join()
            self._settle(made["id"])
            ledger.seconds = time.monotonic() - began
            self._draw_up(first)
        return ledger

    def _decide(self, _event: dict[str, Any]) -> int:
        return 200 if self._chance.random() >= self._plan.fails else self._chance.choice([500, 502, 503, 404, 429])

    def _write(self, number: int, phones: list[tuple[str, str]]) -> None:
        """Each writer is a phone outside that writes to all sessions in turn."""
        simulator, me = self._system.simulator, f"97252{number:07}"
        simulator.post("/phones", {"phone": me})
        for n in range(number, self._plan.messages, self._plan.writers):
            text = f"{n:06}"
            simulator.post(f"/phones/{me}/send", {"to": phones[n % len(phones)][1], "text": text})
            with self._lock:
                self._written.append(text)

    def _disturb(self, thread: ReceiverThread) -> None:
        """Kills and the outage, each when its share of the messages has arrived: while all parts are at work."""
        steps = sorted([*((share, "kill") for share in self._plan.kills), (self._plan.down_at, "down")])
        for share, what in steps:
            wait_for(lambda s=share: self._came() >= s * self._plan.messages, what=f"{share:.0%} of the messages",  # type: ignore[misc]
                     timeout_s=self._plan.settle_s)  # fmt: skip
            self._say(f"{self._came()} of {self._plan.messages} messages at the receiver: {what}")
            if what == "down":
                thread.do(thread.receiver.down())
                time.sleep(self._plan.down_s)
                thread.do(thread.receiver.up())
            else:
                self._system.kill()
                self._system.start()
                self._ledger.kills += 1

    def _settle(self, webhook_id: str) -> None:
        """Until all messages have become events and all events are delivered."""
        api, said = self._system.api, 0.0
        expected = len(self._written)

        def through() -> bool:
            nonlocal said
            try:
                state = api.get(f"/api/v1/webhooks/{webhook_id}")["state"]
            except (*_AWAY, Refused):
                return False
            came = self._came()
            if time.monotonic() - said > 15:
                said = time.monotonic()
                self._say(f"  {came} of {expected} messages at the receiver, {state['behind']} events behind")
            return came >= expected and state["behind"] == 0 and state["waiting"] == 0

        wait_for(through, what="all events to be delivered", timeout_s=self._plan.settle_s, pause_s=0.5)

    def _came(self) -> int:
        texts = (e["data"].get("text") for e in list(self._receiver.events) if e["type"] == "MESSAGE_RECEIVED")
        return len(set(texts))

    def _draw_up(self, first: int) -> None:
        ledger, receiver = self._ledger, self._receiver
        ledger.written = len(self._written)
        events = list(receiver.events)
        numbers = {e["number"] for e in events}
        ledger.first, ledger.last = first, max(numbers)
        ledger.missing_numbers = [n for n in range(first, ledger.last + 1) if n not in numbers]
        texts = {e["data"].get("text") for e in events if e["type"] == "MESSAGE_RECEIVED"}
        ledger.missing_messages = sorted(set(self._written) - texts)
        ledger.out_of_order = receiver.out_of_order()
        ledger.bad_signatures = receiver.bad_signatures
        ledger.tries, ledger.received = len(receiver.tries), len(events)
        ledger.repeats = len(events) - len(numbers)
        ledger.types = Counter(e["type"] for e in events)
