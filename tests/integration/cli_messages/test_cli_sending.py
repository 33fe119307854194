"""Sending one message from the command line, and following it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.command_server import (
    LATER,
    TOLD,
    TYPED,
    Server,
    ask,
    asked,
)


def test_text_is_queued_for_the_named_session(server: Server) -> None:
    session_id = server.connected()
    result = ask(server, "send", "972521111111", "Hello", "there", "--session", session_id, "--reference", "order-1")
    assert result.exit_code == 0, result.output
    found = re.match(rf"(msg_\w+) is queued by {session_id}, probably at 20", result.stdout)
    assert found, result.stdout
    message = server.message(found[1])
    assert message["content"] == {"kind": "text", "text": "Hello there"}
    assert message["reference"] == "order-1"


def test_sender_may_be_named_by_its_phone(server: Server) -> None:
    session_id = server.connected()
    phone = server.do(server.plane.good("GET", f"/api/sessions/{session_id}"))["phone"]
    sent = asked(server, "send", "972521111111", "Hello", "--from", phone)
    assert server.message(sent["messageId"])["phone"] == phone


def test_wait_tells_each_step_as_it_happens(server: Server) -> None:
    session_id = server.connected()
    with server.worker(session_id):
        result = ask(server, "send", "972521111111", "Hello", "--session", session_id, "--wait", "--until", "delivered")
    assert result.exit_code == 0, result.output
    steps = re.findall(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}  (\w+)", result.stdout, re.MULTILINE)
    assert steps == ["accepted", "queued", "outbox", "claimed", "sent", "delivered"]


def test_wait_with_json_is_one_object_a_line_and_the_whole_message_last(server: Server) -> None:
    session_id = server.connected()
    with server.worker(session_id):
        result = ask(server, "send", "972521111111", "Hello", "--session", session_id, "--wait", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line["what"] for line in lines[:3]] == ["accepted", "queued", "outbox"]
    assert lines[-1]["status"] in {"sent", "delivered"}


def test_wait_ends_with_an_error_when_the_message_fails(server: Server) -> None:
    session_id = server.connected()
    with server.worker(session_id, refuse="NOT_ON_WHATSAPP"):
        result = ask(server, "send", "972521111112", "Hello", "--session", session_id, "--wait")
    assert result.exit_code == 1
    assert "failed  (NOT_ON_WHATSAPP" in result.stdout


def test_wait_says_what_it_waits_for_and_has_an_end(server: Server) -> None:
    session_id = server.connected()
    result = ask(server, "send", "972521111111", "Hello", "--session", session_id, "--at", "+1h", "--wait",
                 "--timeout", "0")  # fmt: skip
    assert result.exit_code == 1
    assert re.search(r"→ waiting for SCHEDULED: It is planned for later. Until \d{4}-", result.stdout)
    assert re.search(r"^msg_\w+ is accepted and goes on without us.", result.stderr)


def test_local_picture_is_uploaded_and_sent_by_its_id(server: Server, tmp_path: Path) -> None:
    session_id = server.connected()
    (tmp_path / "menu.png").write_bytes(b"\x89PNG invented")
    with server.worker(session_id) as worker:
        words = ["send", "972521111111", "Today", "--image", "menu.png", "--session", session_id, "--wait"]
        assert ask(server, *words).exit_code == 0
        content = worker.seen[0]["content"]
        assert content["kind"] == "image"
        assert content["caption"] == "Today"
        assert content["media"]["mimetype"] == "image/png"
        assert server.do(worker.media(content["media"]["mediaId"])) == b"\x89PNG invented"


def test_any_file_goes_as_a_document_with_its_name(server: Server, tmp_path: Path) -> None:
    session_id = server.connected()
    (tmp_path / "bill.pdf").write_bytes(b"%PDF invented")
    sent = asked(server, "send", "972521111111", "--file", "bill.pdf", "--caption", "Yours", "--session", session_id)
    content = server.message(sent["messageId"])["content"]
    assert (content["kind"], content["caption"]) == ("document", "Yours")
    assert content["media"]["fileName"] == "bill.pdf"
    assert content["media"]["mimetype"] == "application/pdf"


def test_picture_by_address_is_not_uploaded(server: Server) -> None:
    sent = asked(server, "send", "972521111111", "--image", "https://example.invalid/a.png", "--from",
                 server.do(server.plane.good("GET", f"/api/sessions/{server.connected()}"))["phone"])  # fmt: skip
    assert server.message(sent["messageId"])["content"]["media"] == {"url": "https://example.invalid/a.png"}


def test_key_sends_once_and_says_so(server: Server) -> None:
    words = ["send", "972521111111", "Hello", "--key", "only-once"]
    first, second = asked(server, *words), asked(server, *words)
    assert first["messageId"] == second["messageId"]
    assert (first["replayed"], second["replayed"]) == (False, True)
    assert "known already by its key: nothing new is sent" in ask(server, *words).stdout
    other = ask(server, "send", "972521111111", "Other", "--key", "only-once")
    assert (other.exit_code, other.stderr[:38]) == (1, "This --key was used for another messag")


def test_times_and_priority_reach_the_server(server: Server) -> None:
    sent = asked(server, "send", "972521111111", "-", "--at", TYPED, "--expires", LATER.isoformat(),
                 "--priority", "1", "--defer", input="From\nstandard input\n")  # fmt: skip
    message = server.message(sent["messageId"])
    assert message["scheduleAt"] == TOLD
    assert message["expiresAt"] == LATER.isoformat(timespec="milliseconds")
    assert message["priority"] == 1
    assert message["content"]["text"] == "From\nstandard input"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "Say to whom and what"),
        (["972521111111"], "Say what to send: a text, --image or --file."),
        (["972521111111", "a", "--session", "x", "--from", "1"], "Name the sender once"),
        (["972521111111", "a", "--image", "x", "--file", "y"], "Give --image or --file, not both"),
        (["972521111111", "a", "--image", "https://x.invalid/a.png", "--caption", "b"], "Give the caption once"),
        (["972521111111", "a", "--caption", "b"], "--caption belongs to"),
        (["972521111111", "a", "--at", "soon"], "--at is not a time. Write 2030-01-31T09:00"),
        (["972521111111", "a", "--text", "b"], "--text and --dry-run belong to --csv"),
        (["972521111111", "a", "--until", "never"], "--until is one of sent, delivered, read."),
        (["972521111111", "a", "--csv", "x.csv"], "With --csv the file says to whom"),
        (["--csv", "x.csv", "--wait"], "--wait and --reference are for one message"),
        (["--csv", "x.csv", "--at", "+1h"], "--at needs a fixed time here"),
        (["--csv", "x.csv", "--image", "./a.png"], "With --csv, --image must be an address"),
    ],
)
def test_wrong_use_is_one_sentence(server: Server, words: list[str], sentence: str) -> None:
    result = ask(server, "send", *words)
    assert result.exit_code == 2
    assert result.stderr.startswith(sentence), result.stderr
    assert result.stderr.count("\n") == 1


def test_what_the_server_refuses_is_told(server: Server, tmp_path: Path) -> None:
    assert ask(server, "send", "12", "Hello").stderr.startswith("Write the recipient as a number in international form")
    assert ask(server, "send", "972521111111", "Hi", "--session", "nobody").stderr.startswith("There is no session")
    assert "nowhere.png cannot be read: No such file" in ask(server, "send", "9", "--image", "nowhere.png").stderr
    (tmp_path / "note.txt").write_text("x")
    assert "Send it with --file" in ask(server, "send", "972521111111", "--image", "note.txt").stderr
    (tmp_path / "huge.bin").write_bytes(bytes(70 << 20))
    huge = ask(server, "send", "972521111111", "--file", "huge.bin", "--json")
    assert json.loads(huge.stdout)["error"]["code"] == "TOO_LARGE"


def test_no_time_is_told_while_the_session_is_stopped_but_where_to_look(server: Server) -> None:
    session_id = server.connected()
    assert ask(server, "sessions", "stop", session_id).exit_code == 0
    told = ask(server, "send", "972521111111", "Hello", "--session", session_id).stdout
    message_id = told.split()[0]
    hint = f"It waits: see `wa-orchestrator messages show {message_id}`."
    assert told == f"{message_id} is queued by {session_id}. {hint}\n"
    shown = ask(server, "messages", "show", message_id).stdout
    assert "Its session is stopped. Start the session, and it goes out." in shown
    assert shown.endswith(f"See `wa-orchestrator sessions show {session_id}`.\n")
