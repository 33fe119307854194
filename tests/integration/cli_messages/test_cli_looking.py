"""Listing, showing, cancelling and driving messages again from the command line."""

from __future__ import annotations

import re

import pytest

from support.command_server import (
    SHOWN,
    TYPED,
    Server,
    ask,
    asked,
    asked_id,
    eventually,
    run,
)


def test_list_filters_and_follows_pages(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wa_orchestrator.cli.messages._PAGE", 2)
    session_id = server.connected(unpaced=False)
    server.do(server.plane.good("PUT", f"/api/anti-ban/sessions/{session_id}/limits", {"daily": 100, "minDelayMs": 0}))
    ids = [asked(server, "send", "972522222222", f"{n}", "--session", session_id, "--at", "+1h")["messageId"]
           for n in range(5)]  # fmt: skip
    listed = asked(server, "messages", "list", "--session", session_id, "--limit", "4")
    assert [m["messageId"] for m in listed["messages"]] == ids[:0:-1]
    table = ask(server, "messages", "list", "--session", session_id, "--status", "accepted", "--to", "97252222")
    assert all(message_id in table.stdout for message_id in ids)
    assert "972522222222" in table.stdout
    assert "@s.whatsapp.net" not in table.stdout
    assert ask(server, "messages", "list", "--to", "1999").stdout == "No message fits.\n"
    assert "There may be more" in ask(server, "messages", "list", "--session", session_id, "--limit", "2").stdout


def test_show_is_a_timeline_with_what_it_waits_for(server: Server) -> None:
    sent = asked(server, "send", "972521111111", "Hello \x1b[31mred", "--at", TYPED)
    shown = ask(server, "messages", "show", sent["messageId"]).stdout
    assert re.search(rf"^Planned for +{SHOWN}$", shown, re.MULTILINE)
    assert "Hello �[31mred" in shown
    assert re.search(r"^\d{4}-\d\d-\d\d [\d:.]+  accepted$", shown, re.MULTILINE)
    assert shown.endswith(f"→ waiting for SCHEDULED: It is planned for later. Until {SHOWN}.\n")
    assert asked(server, "messages", "show", sent["messageId"])["waitingFor"]["code"] == "SCHEDULED"
    unknown = ask(server, "messages", "show", "msg_0")
    assert (unknown.exit_code, unknown.stderr[:36]) == (1, "There is no message with this id; en")


def test_cancel_goes_on_after_a_failure(server: Server) -> None:
    ids = [asked(server, "send", "972521111111", "x", "--at", "+1h")["messageId"] for _ in range(2)]
    result = ask(server, "messages", "cancel", ids[0], "msg_0", ids[1])
    assert result.exit_code == 1
    assert result.stdout == f"{ids[0]}: cancelled\n{ids[1]}: cancelled\n"
    assert result.stderr.startswith("msg_0: There is no message")
    assert asked(server, "messages", "cancel", ids[0])["status"] == "cancelled"


def test_failed_messages_are_listed_and_driven_again(server: Server) -> None:
    session_id = server.connected()
    with server.worker(session_id, refuse="NOT_ON_WHATSAPP"):
        failed = [asked_id(server, session_id) for _ in range(3)]
    assert all(message_id in ask(server, "messages", "dead").stdout for message_id in failed)
    with server.worker(session_id):
        assert ask(server, "messages", "redrive", failed[0]).stdout == f"{failed[0]}: queued\n"
        again = ask(server, "messages", "redrive", "--all-dead")
        assert again.exit_code == 0, again.output
        assert re.match(r"\d+ driven again\.", again.stdout)
        eventually(lambda: all(server.message(m)["status"] in {"sent", "delivered"} for m in failed))
    assert failed[0] not in ask(server, "messages", "dead").stdout
    assert ask(server, "messages", "redrive", "--all-dead").stdout == "No message has failed.\n"
    assert ask(server, "messages", "redrive", failed[0]).stderr == "Only a failed message can be driven again.\n"
    assert ask(server, "messages", "redrive").exit_code == 2


@pytest.mark.parametrize(
    "words",
    [["send"], *(["messages", name] for name in ("list", "show", "cancel", "redrive", "dead")),
     *(["limits", name] for name in ("show", "set", "clear"))],
)  # fmt: skip
def test_every_command_has_help_and_json(words: list[str]) -> None:
    result = run(*words, "--help")
    assert result.exit_code == 0
    assert f"Usage: wa-orchestrator {' '.join(words)}" in result.stdout
    assert "--json" in result.stdout


@pytest.mark.parametrize("words", [["messages"], ["limits"]])
def test_no_command_shows_the_help(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert "Usage: wa-orchestrator" in result.stdout
