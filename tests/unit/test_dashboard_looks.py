"""How sessions look in lists, the check-up, the charts, the told events and the worker's log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wa_orchestrator.dashboard import charts, looks, telling, worker_log
from wa_orchestrator.dashboard.problems import Circumstances, find_problems
from wa_orchestrator.dashboard.words import Words
from wa_orchestrator.model.proxy import Proxy, ProxyAddress, ProxyStatus
from wa_orchestrator.model.session import Session, Status, Wanted
from wa_orchestrator.store.journal import JournalEntry
from wa_orchestrator.store.rows import SessionRow

NOW = 1_700_000_000_000
PROXY = Proxy(
    proxy_id="px_1", address=ProxyAddress("proxy.example", 1080, "user", "s3cret"), status=ProxyStatus.ACTIVE,
    sessions=("worker_1",), bound_phones=1, draining=False, added_at=1, checked_at=None, latency_ms=None,
    exit_ip=None, bad_at=None, last_error=None, last_error_kind=None, failures=0, next_check_at=0,
)  # fmt: skip


def row(
    number: int, status: Status = Status.CONNECTED, *, lane: dict[str, str] | None = None, **more: Any
) -> looks.Seen:
    session = Session(
        session_id=f"worker_{number}", status=status, wanted=Wanted.RUNNING, created_at=number, proxy_id="px_1",
        **{"phone": f"97250{number:07}", **more},
    )  # fmt: skip
    found = SessionRow(session=session, first_connected_at=NOW - 86_400_000, lane=lane or {}, waiting=2, under_way=1)
    return looks.seen(found, {"px_1": PROXY}, now_ms=NOW)


def ids(page: looks.Page) -> list[str]:
    return [one.id for one in page.rows]


def test_names_sort_as_people_count() -> None:
    rows = [row(n) for n in (10, 2, 1)]
    assert ids(looks.select(rows, looks.Question())) == ["worker_1", "worker_2", "worker_10"]
    assert ids(looks.select(rows, looks.Question(descending=True))) == ["worker_10", "worker_2", "worker_1"]


def test_trouble_comes_first_when_sorted_by_state() -> None:
    rows = [row(1), row(2, Status.STOPPED), row(3, Status.FAILED), row(4, Status.QR_READY)]
    assert ids(looks.select(rows, looks.Question(sort="state"))) == ["worker_3", "worker_4", "worker_1", "worker_2"]


@pytest.mark.parametrize("search", ["97250", "+97250", "front", "FRONT desk", "proxy.example:1080", "worker_7"])
def test_a_search_finds_by_name_number_and_proxy(search: str) -> None:
    rows = [row(7, label="Front desk")]
    assert ids(looks.select(rows, looks.Question(search=search))) == ["worker_7"]
    assert ids(looks.select(rows, looks.Question(search=f"{search} nothing"))) == []


def test_a_page_too_far_is_the_last_one() -> None:
    page = looks.select([row(n) for n in range(120)], looks.Question(page=99))
    assert (page.page, page.pages, page.first, page.last, page.total) == (3, 3, 101, 120, 120)


@pytest.mark.parametrize("odd", [{"page": "-1"}, {"page": "٣"}, {"page": "9" * 50}, {"sort": "--x"}, {"group": "x"}])
def test_odd_questions_are_passed_over(odd: dict[str, str]) -> None:
    assert looks.read_question(odd).page == 1
    assert looks.select([row(1)], looks.read_question(odd)).total == 1


def test_todays_count_ends_with_the_day_and_no_limit_is_none() -> None:
    lane = {"dayKey": "x", "dayCount": "5", "dayEndsAt": str(NOW + 1)}
    assert (row(1, lane=lane).sent, row(1, lane=lane).limit) == (5, None)
    over = {**lane, "dayEndsAt": str(NOW - 1), "daily": "5"}
    assert (row(1, lane=over).sent, row(1, lane=over).full) == (0, False)
    assert row(1).limit == 20, "before its first plan the table's limit holds"


@pytest.mark.parametrize(
    ("lane", "why"),
    [
        ({}, ""),
        ({"slow": "2", "failures": "3"}, "slowed"),
        ({"slow": "2", "pausedUntil": str(NOW + 5)}, "paused"),
        ({"opensAt": str(NOW + 5), "pausedUntil": str(NOW + 5)}, "closed"),
        ({"dayKey": "x", "dayCount": "5", "daily": "5", "dayEndsAt": str(NOW + 5)}, "full"),
        ({"blockedUntil": str(NOW + 5), "dayKey": "x", "daily": "0"}, "blocked"),
        ({"blockedUntil": str(NOW - 5)}, ""),
    ],
)
def test_the_strongest_reason_says_why_a_session_is_slow(lane: dict[str, str], why: str) -> None:
    assert row(1, lane=lane).why_slow == why


def test_sessions_of_one_phone_count_their_queue_once() -> None:
    rows = [row(1, phone="972501"), row(2, phone="972501"), row(3, Status.FAILED, phone="972502")]
    counts: dict[str, Any] = {"today": {"sent": 7}, "unrouted": 1}
    numbers = looks.glance(rows, [PROXY], counts, slots_per_proxy=4)
    assert (numbers.queue, numbers.under_way, numbers.sent_today) == (5, 2, 7)
    assert (numbers.connected, numbers.trouble, numbers.free_slots) == (2, 1, 3)


# check-up --------------------------------------------------------------------------------------------------------
def circumstances(**given: Any) -> Circumstances:
    rows = given.pop("rows", [row(1)])
    proxies = given.pop("proxies", [PROXY])
    numbers = looks.glance(rows, proxies, {"today": {}, "unrouted": 0}, slots_per_proxy=4)
    defaults: dict[str, Any] = {"dead_messages": 0, "free_bytes": 1 << 40, "ping_timeout_ms": 180_000,
                                "alerts_on": True, "worker_built": True}  # fmt: skip
    return Circumstances(now_ms=NOW, rows=rows, proxies=proxies, numbers=numbers, **{**defaults, **given})


def test_nothing_is_found_where_all_is_well() -> None:
    assert find_problems(circumstances()) == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"rows": [row(1, Status.LOGGED_OUT, reason="LOGGED_OUT")]}, "session"),
        ({"rows": [row(1, last_ping=NOW - 200_000)]}, "silent"),
        ({"rows": [row(1, Status.QR_READY), row(2)]}, "unscanned"),
        ({"rows": [row(1, lane={"slow": "2"})]}, "slowed"),
        ({"rows": [row(1, Status.STOPPED)]}, "nobody_sends"),
        ({"proxies": []}, "no_proxies"),
        ({"dead_messages": 3}, "dead"),
        ({"free_bytes": 1}, "disk"),
        ({"alerts_on": False}, "no_alerts"),
        ({"worker_built": False}, "no_worker"),
    ],
)
def test_each_trouble_is_found_and_has_words(given: dict[str, Any], code: str) -> None:
    found = find_problems(circumstances(**given))
    assert code in {problem.code for problem in found}
    for language in ("en", "he"):
        words = Words(language)
        for problem in found:
            if problem.code not in {"session", "proxy_bad"}:
                assert words(f"problem.{problem.code}.what", n=1, mb=1)
                assert words(f"problem.{problem.code}.do")


def test_the_worst_comes_first() -> None:
    found = find_problems(circumstances(free_bytes=1, alerts_on=False, dead_messages=1))
    assert [problem.level for problem in found] == ["bad", "warn", "hint"]


# charts ----------------------------------------------------------------------------------------------------------
def test_messages_are_added_up_and_sessions_are_the_last_look() -> None:
    minutes = [(0, {"sent": 1, "sessionsConnected": 3}), (1, {"sent": 2, "sessionsConnected": 4}), (2, {}), (3, {})]
    lines = charts.series(minutes, per_point=2)
    assert lines["at"] == [0, 120]
    assert lines["sent"] == [3, 0]
    assert lines["connected"] == [4, None]


# events ----------------------------------------------------------------------------------------------------------
def told(kind: str, **data: Any) -> str:
    entry = JournalEntry(number=1, type=kind, session_id="worker_1", at=NOW, data=data)
    text = telling.tell(entry, Words("en"), {"px_1": "proxy.example:1080"}).text
    return "".join(c for c in text if c not in "\u2066\u2068\u2069")


def test_events_are_told_as_sentences() -> None:
    assert told("session.status", status="connected", was="pending", reason="") == "Starting → Connected"
    assert told("session.moved", **{"from": "px_1", "to": "px_2", "reason": "PROXY_FAILED"}) == (
        "Moved from proxy proxy.example:1080 to px_2: its proxy failed"
    )
    assert told("message.sent", to="972501234567") == "Message to +972 50-123-4567 sent"
    assert told("something.new", a=1) == "something.new"
    assert told("message.failed") == "Message to – failed: –", "an entry without its data is told too"


def test_a_messages_text_is_never_told() -> None:
    assert "secret" not in told("MESSAGE_RECEIVED", text="secret", caption="secret")


def test_events_are_filtered_by_kind_and_words() -> None:
    entry = JournalEntry(number=1, type="message.failed", session_id="worker_1", at=NOW, data={"to": "972501234567"})
    line = telling.tell(entry, Words("en"), {})
    assert telling.wanted(line, kind="", search="worker_1 failed")
    assert telling.wanted(line, kind="messages", search="")
    assert telling.wanted(line, kind="trouble", search="")
    assert not telling.wanted(line, kind="proxies", search="")
    assert not telling.wanted(line, kind="", search="worker_2")


# worker's log ----------------------------------------------------------------------------------------------------
def test_a_log_is_followed_from_where_it_was_read(tmp_path: Path) -> None:
    file = tmp_path / "worker_1.log"
    file.write_text('{"time":"t","level":"info","event":"started","pid":1}\n{"event":"half')
    first = worker_log.read_log(file, position=None)
    assert [line.event for line in first.lines] == ["started"]
    with file.open("a") as log:
        log.write('"}\n')
    second = worker_log.read_log(file, position=first.position)
    assert [line.event for line in second.lines] == ["half"]
    assert worker_log.read_log(file, position=second.position).lines == []


def test_a_log_that_was_turned_over_is_read_anew(tmp_path: Path) -> None:
    file = tmp_path / "worker_1.log"
    file.write_text('{"event":"new"}\n')
    assert [line.event for line in worker_log.read_log(file, position=9999).lines] == ["new"]
    assert worker_log.read_log(tmp_path / "none.log", position=None).lines == []


@pytest.mark.parametrize(
    "secret",
    ["socks5h://user:pass@host:1080", "972501234567", "a" * 44, "972501234567@s.whatsapp.net"],
)
def test_a_log_shows_no_secret(secret: str) -> None:
    line = worker_log.read_line(json.dumps({"event": "x", "note": f"tried {secret} again", "noiseKey": "abc"}))
    assert secret not in line.details
    assert "abc" not in line.details
    assert secret not in worker_log.read_line(f"Error: {secret} failed").details
