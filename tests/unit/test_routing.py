"""Which phone sends a message that names no sender."""

from __future__ import annotations

import time
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.dispatcher.routing import Candidate, Senders


def candidate(name: str, room: int | None, *, phone: str = "", waiting: int = 0) -> Candidate:
    return Candidate(session_id=name, phone=phone or f"phone of {name}", room=room, waiting=waiting)


def chosen(senders: Senders, last_talked: str | None = None) -> str:
    found = senders.choose(last_talked=last_talked)
    assert found is not None
    return found.session_id


def test_who_last_talked_to_the_recipient_sends_even_without_room() -> None:
    assert chosen(Senders([candidate("a", 0), candidate("b", 9)]), "a") == "a"


def test_a_last_talker_that_is_away_is_passed_over() -> None:
    assert chosen(Senders([candidate("b", 1), candidate("c", 2)]), "a") == "c"


def test_one_without_a_limit_has_most_room() -> None:
    assert chosen(Senders([candidate("a", 10**6), candidate("b", None)])) == "b"


def test_those_without_a_limit_share_what_comes_by_their_queues() -> None:
    senders = Senders([candidate("a", None, waiting=4), candidate("b", None), candidate("c", None)])
    assert Counter(chosen(senders) for _ in range(11)) == {"a": 1, "b": 5, "c": 5}


def test_a_full_one_is_better_than_none() -> None:
    assert chosen(Senders([candidate("a", 0)])) == "a"
    assert Senders([]).choose(last_talked="a") is None


def test_all_sessions_of_a_phone_share_its_room() -> None:
    senders = Senders([candidate("a", 3, phone="p"), candidate("b", 3, phone="p"), candidate("c", 2)])
    assert [chosen(senders) for _ in range(2)] == ["a", "c"], "b has given one of its places away with a's"


def test_what_went_to_an_old_acquaintance_counts_too() -> None:
    senders = Senders([candidate("a", 5), candidate("b", 3)])
    assert [chosen(senders, "a") for _ in range(4)] == ["a"] * 4
    assert chosen(senders) == "b"


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 60))
def test_messages_are_spread_so_that_no_phone_is_over_its_room_while_another_has_some(
    rooms: list[int], messages: int
) -> None:
    senders = Senders(candidate(str(i), room) for i, room in enumerate(rooms))
    got = Counter(chosen(senders) for _ in range(min(messages, sum(rooms))))
    left = [room - got[str(i)] for i, room in enumerate(rooms)]
    assert min(left) >= 0
    assert max(left) - min([n for i, n in enumerate(left) if got[str(i)]], default=max(left)) <= 1, "most room first"


def test_ten_thousand_messages_find_their_senders_among_ten_thousand_in_a_moment() -> None:
    senders = Senders(candidate(f"s{n}", 50) for n in range(10_000))
    began = time.process_time()
    got = Counter(chosen(senders) for _ in range(10_000))
    assert time.process_time() - began < 2, "about 0.05 s; going over all of them each time takes minutes"
    assert set(got.values()) == {1}
