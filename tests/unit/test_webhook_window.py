"""The book-keeping of a webhook's events: the cursor never passes one that is not settled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.events.window import Window
from wa_orchestrator.store.journal import JournalEntry


def entry(number: int, session: str = "a") -> JournalEntry:
    return JournalEntry(number=number, type="MESSAGE_RECEIVED", session_id=session, at=1, data={"n": number})


def test_the_cursor_waits_for_the_slowest() -> None:
    window = Window(10)
    one = window.take(entry(11, "a"))
    two = window.take(entry(12, "b"))
    window.pass_over(13)
    assert window.settle_point() == 10
    window.delivered(two, two.queue[0])
    assert window.settle_point() == 10
    window.delivered(one, one.queue[0])
    assert window.settle_point() == 13
    assert window.idle


def test_a_parked_session_lets_the_cursor_go_on_and_keeps_its_later_events() -> None:
    window = Window(0)
    lane = window.take(entry(1))
    window.take(entry(2))
    window.failed(lane, "answered 500", now_ms=5, chance=1.0)
    window.park(lane)
    window.take(entry(3))
    taken = window.hand_over()
    assert window.settle_point() == 3
    assert list(taken.lanes["a"].add) == [1, 2, 3]
    assert taken.lanes["a"].state is not None
    assert taken.lanes["a"].state.failures == 1
    assert lane.head is None, "from now on they come from the store"


def test_what_could_not_be_written_is_written_with_the_next() -> None:
    window = Window(0)
    lane = window.take(entry(1))
    window.park(lane)
    taken = window.hand_over()
    window.take(entry(2))
    window.take_back(taken)
    again = window.hand_over()
    assert list(again.lanes["a"].add) == [1, 2]


def test_events_that_came_while_the_last_was_taken_off_the_store_go_on_from_memory() -> None:
    window = Window(0)
    lane = window.take(entry(1))
    window.park(lane)
    window.settled(window.hand_over(), {"a": 1})
    lane.stored.append(entry(1))
    window.delivered(lane, lane.stored[0])
    taken = window.hand_over()
    window.take(entry(2))  # while `taken` is being written
    window.settled(taken, {"a": 0})
    assert not lane.parked
    assert lane.head == entry(2)
    assert window.settle_point() == 1, "it is not settled yet"


def test_an_event_under_way_while_its_session_is_parked_is_not_delivered_twice() -> None:
    window = Window(0)
    lane = window.take(entry(1))
    under_way = lane.queue[0]
    window.park(lane)  # dead letters of the session are driven again
    window.delivered(lane, under_way)
    assert window.hand_over().lanes["a"].add == {}


def test_memory_is_bounded_in_number_and_size() -> None:
    window = Window(0)
    number = 0
    while window.has_room:
        number += 1
        window.take(entry(number, f"s{number % 7}"))
    assert number == 1000
    window = Window(0)
    number = 0
    while window.has_room:
        number += 1
        window.take(JournalEntry(number=number, type="X", session_id="a", at=1, data={"text": "x" * 1_000_000}))
    assert number < 12


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60), st.randoms(use_true_random=False))
def test_in_any_order_of_ends_the_cursor_never_passes_an_open_event(
    steps: list[tuple[str, bool]], chance: object
) -> None:
    window, open_numbers, number = Window(0), dict[str, list[int]](), 0
    for session, take in steps:
        if take:
            number += 1
            window.take(entry(number, session))
            open_numbers.setdefault(session, []).append(number)
        elif open_numbers.get(session):
            lane = window.lane(session)
            first = open_numbers[session].pop(0)
            assert lane.head is not None
            assert lane.head.number == first, "in order"
            window.delivered(lane, lane.head)
        left = [n for numbers in open_numbers.values() for n in numbers]
        assert window.settle_point() == (min(left) - 1 if left else number)
