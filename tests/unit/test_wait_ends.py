"""Long polls end in time, many with one timer; one whose caller hung up is told so."""

from __future__ import annotations

import asyncio

from wa_orchestrator.worker_api.hang_up import HangUp
from wa_orchestrator.worker_api.wait_ends import WaitEnds, end_wait


def waiting() -> asyncio.Future[bool]:
    return asyncio.get_running_loop().create_future()


async def test_a_short_wait_lasts_as_long_as_asked() -> None:
    ends, poll = WaitEnds(), waiting()
    began = asyncio.get_running_loop().time()
    ends.add(poll, after_s=0.05)
    assert await poll is False
    assert asyncio.get_running_loop().time() - began >= 0.049


async def test_long_waits_of_about_the_same_moment_share_it_and_end_no_later_than_asked() -> None:
    ends, now = WaitEnds(), asyncio.get_running_loop().time()
    asked = [55 + number / 1000 for number in range(1000)]
    moments = [ends.add(waiting(), after_s=after_s) for after_s in asked]
    assert len(set(moments)) <= 12, "a second of polls needs a dozen timers, not a thousand"
    for moment, after_s in zip(moments, asked, strict=True):
        # the clock went on a little while they were added
        assert now + after_s - 0.1 <= moment <= asyncio.get_running_loop().time() + after_s


async def test_all_polls_of_a_moment_end_and_a_woken_one_keeps_its_answer() -> None:
    ends, polls = WaitEnds(), [waiting() for _ in range(3)]
    moments = {ends.add(poll, after_s=60) for poll in polls}
    polls[0].set_result(True)
    for moment in moments:
        ends._end(moment)
    assert [poll.result() for poll in polls] == [True, False, False]
    assert not ends._groups


async def test_a_poll_that_ended_otherwise_is_not_kept_until_its_moment() -> None:
    ends, poll = WaitEnds(), waiting()
    moment = ends.add(poll, after_s=60)
    ends.discard(poll, moment)
    assert ends._groups[moment] == set()
    ends._end(moment)
    ends.discard(poll, moment)
    assert not poll.done()


async def test_who_hung_up_before_anybody_waited_is_told_at_once() -> None:
    hang_up, poll = HangUp(), waiting()
    hang_up.happen()
    hang_up.tell(lambda: end_wait(poll))
    assert poll.result() is False


async def test_who_hangs_up_ends_its_wait_and_nobody_elses() -> None:
    hang_up, first, second = HangUp(), waiting(), waiting()
    hang_up.tell(lambda: end_wait(first))
    hang_up.tell(None)
    hang_up.tell(lambda: end_wait(second))
    hang_up.happen()
    assert (first.done(), second.result()) == (False, False)
