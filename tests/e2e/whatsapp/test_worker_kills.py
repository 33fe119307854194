"""Sixty times kill -9 of a worker that writes its keys all the time: it always comes back, and no message is lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.system import System, wait_for

KILLS = 60
_PHONE = "972500000001"
_RECIPIENTS = [f"97253{number:07}" for number in range(1, 9)]
_WRITERS = [f"97254{number:07}" for number in range(1, 4)]
_ENDED = {"sent", "delivered", "read", "failed", "expired", "cancelled"}
_DEAD_ENDS = {"qr_ready", "failed", "logged_out", "stopped", "unhealthy"}


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("KILLS_SEED") or random.randrange(1 << 32))
    print(f"\nKILLS_SEED={seed}")  # pytest shows it when the test fails
    return random.Random(seed)


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    running = System(
        tmp_path,
        SIMULATOR_PROXIES=1,
        # a crash is forgotten when the reconciler sees the session connected: it has to look between two kills
        PROVISIONING_INTERVAL_MS=100,
        MESSAGE_LEASE_MS=3000,
        WORKER_ENV="RECONNECT_BASE_MS=100 RECONNECT_MAX_MS=500 ACK_TIMEOUT_MS=2000",
    )
    with running:
        for number in (*_RECIPIENTS, *_WRITERS):
            running.simulator.post("/phones", {"phone": number})
        yield running


class Traffic:
    """Messages both ways. Each one advances a ratchet, and that is written to the auth journal before it goes on."""

    def __init__(self, system: System, session_id: str) -> None:
        self._system = system
        self._session_id = session_id
        self._number = itertools.count()
        self.sent: dict[str, tuple[str, str]] = {}  # message id: recipient, text
        self.written: dict[str, str] = {}  # WhatsApp's id: text
        self._received: dict[int, tuple[str, str]] = {}

    def add(self, *, out: int, back: int) -> None:
        for number in itertools.islice(self._number, out):
            to, text = _RECIPIENTS[number % len(_RECIPIENTS)], f"out {number}"
            body = {"to": to, "message": text, "sessionId": self._session_id}
            self.sent[self._system.api.post("/api/v1/send", body)["messageId"]] = (to, text)
        for number in itertools.islice(self._number, back):
            writer, text = _WRITERS[number % len(_WRITERS)], f"in {number}"
            answer = self._system.simulator.post(f"/phones/{writer}/send", {"to": _PHONE, "text": text})
            self.written[answer["id"]] = text

    def received(self) -> Counter[tuple[str, str]]:
        """What the worker reported so far, and how often; to be called now and then, a story keeps only the newest."""
        for event in self._system.events(self._session_id, "MESSAGE_RECEIVED"):
            self._received[event["number"]] = (event["data"]["waMessageId"], event["data"]["text"])
        return Counter(self._received.values())

    def ended(self) -> dict[str, dict[str, Any]] | None:
        """Every message as the API shows it, when none is under way any more."""
        self.received()
        found = {}
        for message_id in reversed(self.sent):  # the newest are the last to end
            found[message_id] = self._system.api.get(f"/api/v1/messages/{message_id}")
            if found[message_id]["status"] not in _ENDED:
                return None
        return found


def test_a_worker_killed_sixty_times_always_comes_back_and_loses_nothing(system: System, chance: random.Random) -> None:
    session_id = system.connected(_PHONE)
    system.unpaced(session_id)
    traffic = Traffic(system, session_id)
    journal = system.data / "sessions" / session_id / "auth" / "journal"
    began = time.monotonic()
    since_write_s = []
    for number in range(KILLS):
        traffic.add(out=4, back=2)
        _choose_the_moment(number, journal, chance)
        since_write_s.append(time.time() - journal.stat().st_mtime)
        killed = _kill(system, session_id)
        traffic.add(out=1, back=1)
        if number % 10 == 9:  # and once more while the next one is still logging in
            starting = _next_worker(system, session_id, after=killed)
            time.sleep(chance.uniform(0, 0.5))
            killed = _kill(system, session_id, starting)
        _until_connected(system, session_id, after=killed)
        if number % 5 == 4:
            traffic.received()
    killed_s = time.monotonic() - began

    # first: the receipts of all that is sent now push it out of the story
    _wait_until_received(traffic)
    wait_for(traffic.ended, what="the end of every message", timeout_s=60, pause_s=0.2)
    messages = _delivered_in_the_end(traffic)
    statuses = Counter(message["status"] for message in messages.values())
    received = traffic.received()
    print(f"{KILLS} kills in {killed_s:.1f} s, {sum(s < 0.02 for s in since_write_s)} within 20 ms of a write; "
          f"all sent after {time.monotonic() - began:.1f} s: {dict(statuses)}; "
          f"reported {len(received)} of {len(traffic.written)} written to us")  # fmt: skip
    assert statuses == {"delivered": len(traffic.sent)}, "every delivery receipt was reported"
    _assert_each_arrived_once(system, traffic, messages)
    assert received == Counter(traffic.written.items()), "every message to us was reported exactly once"
    assert system.simulator.get("/stats")["pairings"] == 1, "nobody scanned again"


def _delivered_in_the_end(traffic: Traffic) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}

    def look() -> bool:
        found.update(traffic.ended() or {})
        return all(message["status"] == "delivered" for message in found.values())

    with contextlib.suppress(AssertionError):  # what is missing is told by the assertions of the test
        wait_for(look, what="all receipts", timeout_s=15, pause_s=0.5)
    return found


def _wait_until_received(traffic: Traffic) -> None:
    with contextlib.suppress(AssertionError):
        wait_for(lambda: len(traffic.received()) == len(traffic.written), what="all of it", timeout_s=15, pause_s=0.2)


def _choose_the_moment(number: int, journal: Path, chance: random.Random) -> None:
    """By turns: any moment, and the instant after the auth journal has grown a few times."""
    if number % 2:
        time.sleep(chance.uniform(0, 0.4))
        return
    deadline = time.monotonic() + 2
    for _ in range(chance.randint(1, 10)):
        size = journal.stat().st_size
        while journal.stat().st_size == size and time.monotonic() < deadline:
            pass  # no pause: the instant counts, and it is a matter of milliseconds


def _kill(system: System, session_id: str, pid: int | None = None) -> int:
    pid = pid or system.worker_pid(session_id)
    assert pid > 0, "0 would be this very process group"
    os.kill(pid, signal.SIGKILL)
    return pid


def _next_worker(system: System, session_id: str, *, after: int) -> int:
    def look() -> int | None:
        with contextlib.suppress(OSError, IndexError):  # there is none at this moment
            pid = system.worker_pid(session_id)
            return pid if pid != after else None
        return None

    return wait_for(look, what=f"a worker after {after}", pause_s=0.01)


def _until_connected(system: System, session_id: str, *, after: int) -> None:
    # in this order: the store forgets "connected" before the new worker has a pid
    _next_worker(system, session_id, after=after)

    def look() -> bool:
        session = system.session(session_id)
        assert session["status"] not in _DEAD_ENDS, f"{session['status']} {session['reason']}"
        return bool(session["status"] == "connected")

    wait_for(look, what=f"{session_id} to be connected after kill -9 of {after}", pause_s=0.02)


def _assert_each_arrived_once(system: System, traffic: Traffic, messages: dict[str, dict[str, Any]]) -> None:
    for recipient in _RECIPIENTS:
        expected = {messages[m]["waMessageId"]: text for m, (to, text) in traffic.sent.items() if to == recipient}
        inbox = system.inbox(recipient)
        assert {entry["id"]: entry.get("text") for entry in inbox} == expected
        assert len(inbox) == len(expected)
