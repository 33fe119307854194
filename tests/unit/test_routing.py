"""Which phone sends a message that names no sender."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.dispatcher.routing import Candidate, choose_sender, with_one_less


def candidate(name: str, room: int | None) -> Candidate:
    return Candidate(session_id=name, phone=f"phone of {name}", room=room)


def test_who_last_talked_to_the_recipient_sends_even_without_room() -> None:
    chosen = choose_sender([candidate("a", 0), candidate("b", 9)], last_talked="a")
    assert chosen is not None
    assert chosen.session_id == "a"


def test_a_last_talker_that_is_away_is_passed_over() -> None:
    chosen = choose_sender([candidate("b", 1), candidate("c", 2)], last_talked="a")
    assert chosen is not None
    assert chosen.session_id == "c"


def test_one_without_a_limit_has_most_room() -> None:
    chosen = choose_sender([candidate("a", 10**6), candidate("b", None)], last_talked=None)
    assert chosen is not None
    assert chosen.session_id == "b"


def test_a_full_one_is_better_than_none() -> None:
    assert choose_sender([candidate("a", 0)], last_talked=None) is not None
    assert choose_sender([], last_talked="a") is None


def test_all_sessions_of_a_phone_share_its_room() -> None:
    one = Candidate(session_id="a", phone="p", room=5)
    other = Candidate(session_id="b", phone="p", room=5)
    assert [c.room for c in with_one_less([one, other, candidate("c", 3)], one)] == [4, 4, 3]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=6), st.integers(0, 60))
def test_messages_are_spread_so_that_no_phone_is_over_its_room_while_another_has_some(
    rooms: list[int], messages: int
) -> None:
    candidates = [candidate(str(i), room) for i, room in enumerate(rooms)]
    for _ in range(min(messages, sum(rooms))):
        chosen = choose_sender(candidates, last_talked=None)
        assert chosen is not None
        candidates = with_one_less(candidates, chosen)
    assert all((c.room or 0) >= 0 for c in candidates)
