"""Looking at limits and changing them from the command line."""

from __future__ import annotations

import re

import pytest

from support.command_server import (
    SHOWN,
    TYPED,
    Server,
    ask,
    asked,
)


def test_limits_show_values_and_where_each_comes_from(server: Server) -> None:
    session_id = server.connected(unpaced=False)
    shown = ask(server, "limits", "show", session_id).stdout
    assert re.search(r"^Trust +cold, first connected ", shown, re.MULTILINE)
    assert re.search(r"messages per day +20 +trust:cold", shown)
    assert re.search(r"pause after a burst +30000 ms after 20 messages +settings", shown)


def test_limits_set_changes_what_is_named_and_keeps_the_rest(server: Server) -> None:
    session_id = server.connected(unpaced=False)
    ask(server, "limits", "set", session_id, "--daily", "50", "--hours", "09:00-18:00")
    answer = asked(server, "limits", "set", session_id, "--per-minute", "none", "--burst", "5:1000", "--min-delay", "1",
                   "--max-delay", "2", "--timezone", "Europe/Berlin", "--until", "+1h")  # fmt: skip
    assert answer["effective"] == {
        "daily": 50, "perMinute": None, "minDelayMs": 1, "maxDelayMs": 2, "hours": "09:00-18:00",
        "burst": {"count": 5, "pauseMs": 1000}, "timezone": "Europe/Berlin",
    }  # fmt: skip
    assert set(answer["sources"].values()) == {"session"}
    assert answer["overrideEndsAt"]
    assert asked(server, "limits", "set", session_id, "--until", "none")["overrideEndsAt"] is None
    assert asked(server, "limits", "set", session_id, "--preset", "cautious")["preset"] == "cautious"
    cleared = asked(server, "limits", "clear", session_id)
    assert (cleared["override"], cleared["effective"]["daily"]) == (None, 20)


def test_unpaced_takes_every_limit_away(server: Server) -> None:
    session_id = server.connected(unpaced=False)
    effective = asked(server, "limits", "set", session_id, "--unpaced", "--daily", "7")["effective"]
    assert effective == {"daily": 7, "perMinute": None, "minDelayMs": 0, "maxDelayMs": 0, "hours": None, "burst": None,
                         "timezone": "Asia/Jerusalem"}  # fmt: skip


def test_limits_for_all_phones(server: Server) -> None:
    session_id = server.connected(unpaced=False)
    try:
        table = ask(server, "limits", "set", "--all", "--daily", "33", "--until", TYPED).stdout
        assert re.search(r"messages per day +33", table)
        assert re.search(rf"until +{SHOWN}", table)
        assert re.search(r"messages per day +33 +global", ask(server, "limits", "show", session_id).stdout)
        assert asked(server, "limits", "show", "--all")["override"]["daily"] == 33
    finally:
        cleared = ask(server, "limits", "clear", "--all")
    assert cleared.stdout == "No override for all phones: the table by trust level holds.\n"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["show"], 2, "Name a session, or give --all."),
        (["show", "worker_1", "--all"], 2, "Name a session, or give --all."),
        (["set", "worker_1"], 2, "Say what to set"),
        (["set", "worker_1", "--daily", "many"], 2, "--daily is a whole number or none, not 'many'."),
        (["set", "worker_1", "--burst", "5"], 2, "--burst is COUNT:PAUSE_MS"),
        (["set", "worker_1", "--until", "later"], 2, "--until is not a time."),
        (["show", "nobody"], 1, "There is no session with this id."),
        (["set", "--all", "--hours", "9-17"], 1, "--hours: write 09:00-21:00, or none"),
        (["set", "--all", "--preset", "wild"], 1, "--preset: one of standard, cautious."),
    ],
)
def test_wrong_limits_are_one_sentence(server: Server, words: list[str], code: int, sentence: str) -> None:
    result = ask(server, "limits", *words)
    assert result.exit_code == code
    assert result.stderr.startswith(sentence), result.stderr
