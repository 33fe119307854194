"""How a receiver does: away after failures in a row, told once, back with the first success."""

from __future__ import annotations

import random

from wa_orchestrator.events.receiver import Receiver
from wa_orchestrator.events.retrying import AWAY_AFTER, TELL_AFTER_MS

NOW = 1_780_000_000_000


def failing(times: int) -> Receiver:
    receiver = Receiver(failures=0, since=0)
    for _ in range(times):
        receiver.failed(NOW, chance=lambda: 1.0)
    return receiver


def test_it_is_away_after_so_many_failures_and_then_rests_between_probes() -> None:
    assert not failing(AWAY_AFTER - 1).away
    receiver = failing(AWAY_AFTER)
    assert (receiver.away, receiver.since) == (True, NOW)
    assert receiver.rests(NOW)
    assert not receiver.rests(receiver.next_try)


def test_what_was_on_its_way_when_it_went_away_does_not_count_twice() -> None:
    receiver = failing(AWAY_AFTER + 5)
    assert receiver.failures == AWAY_AFTER
    receiver.failed(receiver.next_try, chance=random.random)
    assert receiver.failures == AWAY_AFTER + 1


def test_failing_is_told_once_and_not_for_a_restart() -> None:
    receiver = failing(AWAY_AFTER)
    assert not receiver.worth_telling(NOW + TELL_AFTER_MS - 1)
    assert receiver.worth_telling(NOW + TELL_AFTER_MS)
    assert not receiver.worth_telling(NOW + 2 * TELL_AFTER_MS)


def test_the_first_success_ends_it_and_is_told_once() -> None:
    receiver = failing(AWAY_AFTER)
    assert receiver.succeeded(NOW + 1), "the store may know it as failing: it is told after every start"
    assert not receiver.succeeded(NOW + 2)
    assert (receiver.away, receiver.since, receiver.next_try, receiver.last_success) == (False, 0, 0, NOW + 2)
    assert receiver.fields() == {"failures": "0", "failingSince": "0", "nextTry": "0"}
