"""A whole CSV file from the command line: each line once, whatever is cut in between."""

from __future__ import annotations

import json
import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.command_server import (
    TOLD,
    TYPED,
    Server,
    ask,
    asked,
    run,
    served,
)
from support.control_plane import API_KEY


def numbers(count: int, *, start: int = 0) -> list[str]:
    return [f"97254{start + n:07}" for n in range(count)]


def messages_of(server: Server, session_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked(server, "messages", "list", "--session", session_id, "--limit", "5000")[
        "messages"
    ]
    return found


def test_file_is_sent_and_sent_again_without_doubling(server: Server, tmp_path: Path) -> None:
    session_id = server.connected()
    lines = ["to,message,reference", *(f'{to},"Hello, {to}",ref-{to}' for to in numbers(1200))]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    first = ask(server, "send", "--csv", "list.csv", "--session", session_id)
    assert (first.exit_code, first.stdout) == (0, "1200 accepted, 0 known already, 0 refused.\n")
    assert first.stderr.splitlines()[0] == "500 of 1200"
    second = ask(server, "send", "--csv", "list.csv", "--session", session_id)
    assert second.stdout == "0 accepted, 1200 known already, 0 refused.\n"
    sent = messages_of(server, session_id)
    assert len(sent) == 1200
    assert {m["reference"] for m in sent} == {f"ref-{to}" for to in numbers(1200)}


def test_corrected_line_is_sent_and_the_others_are_not_sent_again(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("to,message\n972541111111,One\nwrong,Two\n\n972541111113,\n972541111114,Four,Five\n")
    result = ask(server, "send", "--csv", "list.csv")
    assert (result.exit_code, result.stdout) == (1, "1 accepted, 0 known already, 3 refused.\n")
    assert [line.split(":")[0] for line in result.stderr.splitlines() if line.startswith("line")] == [
        "line 3", "line 5", "line 6",
    ]  # fmt: skip
    file.write_text('to,message\n972541111111,One\n972541111112,Two\n972541111113,Three\n972541111114,"Four,Five"\n')
    assert asked(server, "send", "--csv", "list.csv") == {
        "rows": 4, "accepted": 3, "known": 1, "refused": [], "dryRun": False,
    }  # fmt: skip


def test_same_line_twice_in_a_file_is_meant_twice(server: Server) -> None:
    text = "to,message\n972541111121,Ping\n972541111121,Ping\n"
    assert asked(server, "send", "--csv", "-", "--key", "twice", input=text)["accepted"] == 2
    assert asked(server, "send", "--csv", "-", "--key", "twice", input=text)["known"] == 2
    assert asked(server, "send", "--csv", "-", "--key", "next campaign", input=text)["accepted"] == 2


def test_template_is_filled_from_the_columns(server: Server) -> None:
    session_id = server.connected()
    columns = "\ufeffTo;Name;Day;sessionId;scheduleAt;key"
    text = f"{columns}\r\n972541111131; Dana ;Monday;{session_id};{TYPED};my-own-key\r\n"
    words = ["send", "--csv", "-", "--text", "Hello {name}, {{see}} you on {Day}."]
    assert asked(server, *words, input=text.encode())["accepted"] == 1
    message = messages_of(server, session_id)[0]
    assert message["scheduleAt"] == TOLD
    assert server.message(message["messageId"])["content"]["text"] == "Hello Dana, {see} you on Monday."
    changed = asked(server, *words[:-1], "Bye {name}", input=text.encode())
    assert changed["refused"][0]["code"] == "IDEMPOTENCY_KEY_REUSED"


def test_picture_with_a_caption_for_each_line(server: Server) -> None:
    session_id = server.connected()
    words = ["send", "--csv", "-", "--image", "https://example.invalid/a.png", "--session", session_id]
    assert asked(server, *words, "--text", "For {name}", input="to,name\n972541111141,Dana\n")["accepted"] == 1
    content = server.message(messages_of(server, session_id)[0]["messageId"])["content"]
    assert (content["caption"], content["media"]["url"]) == ("For Dana", "https://example.invalid/a.png")


@pytest.mark.parametrize(
    ("text", "words", "sentence"),
    [
        ("number,message\n1,a\n", [], "The first line must name the columns, one of them `to`."),
        ("", [], "The first line must name the columns"),
        ("to,name\n1,a\n", [], "There is no column `message`."),
        ("to,name\n1,a\n", ["--text", "{town}"], "--text uses {town}, but there is no such column."),
        ("to,to,message\n", [], "Two columns have the same name."),
        ('to,message\n1,"a\n', [], "Line 2 is not valid CSV"),
        (b"to,message\n1,\xe9\xe8\n", [], "- is not UTF-8 text. Save it as CSV UTF-8."),
    ],
)
def test_file_that_cannot_be_used_is_one_sentence(
    server: Server, text: str | bytes, words: list[str], sentence: str
) -> None:
    result = ask(server, "send", "--csv", "-", *words, input=text)
    assert result.exit_code == 1
    assert result.stderr.startswith(sentence), result.stderr


def test_dry_run_checks_without_a_server() -> None:
    text = "to,message,sessionId\n972541111151,Hello,worker_1\n12,Hello,\n972541111152,,\n972541111153,Hi,no such!\n"
    result = run("--url", "http://127.0.0.1:1", "send", "--csv", "-", "--dry-run", input=text)
    assert (result.exit_code, result.stdout) == (1, "1 would be sent, 3 refused. Nothing was sent.\n")
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["line 3", "line 4", "line 5"]
    fine = run("send", "--csv", "-", "--dry-run", "--json", input="to,message\n972541111151,Hello\n")
    assert json.loads(fine.stdout) == {"rows": 1, "accepted": 1, "known": 0, "refused": [], "dryRun": True}


class Cutter:
    """Relays to the server and cuts the first connections, each after so many bytes of its answer."""

    def __init__(self, target: str, cuts: list[int]) -> None:
        self._port = int(target.rsplit(":", 1)[1])
        self._cuts = cuts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Cutter:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with client, socket.create_connection(("127.0.0.1", self._port)) as server:
                upward = threading.Thread(target=self._pump, args=(client, server), daemon=True)
                upward.start()
                self._answer(server, client, limit=self._cuts.pop(0) if self._cuts else None)
                for end in (client, server):
                    _hang_up(end)
                upward.join(timeout=5)

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        try:
            while part := source.recv(65536):
                target.sendall(part)
        except OSError:
            pass
        _hang_up(target)  # whoever asked has gone

    def _answer(self, server: socket.socket, client: socket.socket, *, limit: int | None) -> None:
        left = limit
        try:
            while (left is None or left > 0) and (part := server.recv(65536 if left is None else left)):
                client.sendall(part)
                left = None if left is None else left - len(part)
        except OSError:
            return


def _hang_up(end: socket.socket) -> None:
    """At once, also for a thread that waits on it."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("after", [0, 100, 20_000])
def test_cut_connection_is_taken_up_again_without_doubling(server: Server, tmp_path: Path, after: int) -> None:
    session_id = server.connected()
    lines = ["to,message", *(f"{to},Cut after {after}" for to in numbers(700))]
    (tmp_path / "list.csv").write_text("\n".join(lines))
    with Cutter(server.url, [after, after]) as cutter:
        words = ["send", "--csv", "list.csv", "--session", session_id, "--json"]
        result = run("--url", cutter.url, "--api-key", API_KEY, *words)
        assert result.exit_code == 0, result.output
        assert cutter.connections == 4
    told = json.loads(result.stdout)
    assert told["accepted"] + told["known"] == 700
    assert len(messages_of(server, session_id)) == 700


def test_server_that_stays_away_ends_with_how_far_it_came(server: Server, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("\n".join(["to,message", *(f"{to},Half way" for to in numbers(700))]))
    with Cutter(server.url, [40_000, *[0] * 20]) as cutter:
        result = run("--url", cutter.url, "--api-key", API_KEY, "send", "--csv", "list.csv")
    assert result.exit_code == 1
    told = r"^Stopped before line \d+: .* \d+ accepted, \d+ known already\. Run the same command again: nothing is sent"
    assert re.search(told, result.stderr, re.MULTILINE), result.stderr
    rest = asked(server, "send", "--csv", "list.csv")
    assert rest["accepted"] + rest["known"] == 700


def test_server_that_was_never_there_is_told_at_once() -> None:
    began = time.monotonic()
    result = run("--url", "http://127.0.0.1:1", "send", "--csv", "-", input="to,message\n972541111161,Hi\n")
    assert result.stderr.startswith("Nothing answers at http://127.0.0.1:1 (from --url)")
    assert time.monotonic() - began < 12  # with its pauses it would be 15
    wrong_key = run("--url", "http://127.0.0.1:1", "--api-key", "ü", "send", "9", "x")
    assert wrong_key.stderr.startswith("The API key holds characters")


def test_rate_limit_of_the_server_is_waited_for(tmp_path: Path) -> None:
    with served(tmp_path / "data", RATE_LIMIT_PER_SECOND="100", RATE_LIMIT_BURST="20") as slow:
        (tmp_path / "list.csv").write_text("\n".join(["to,message", *(f"{to},Slow" for to in numbers(60))]))
        told = asked(slow, "send", "--csv", "list.csv")
    assert told == {"rows": 60, "accepted": 60, "known": 0, "refused": [], "dryRun": False}


def test_wrong_key_is_one_sentence(server: Server) -> None:
    result = run("--url", server.url, "--api-key", "wrong", "send", "--csv", "-", input="to,message\n972541111161,Hi\n")
    assert (result.exit_code, result.stderr[:45]) == (1, "The server does not accept this API key. Give")


def test_terminal_gets_a_bar(server: Server, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("\n".join(["to,message", *(f"{to},With a bar" for to in numbers(30))]))
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from wa_orchestrator.cli import main; main()", "--url", server.url, "--api-key",
               API_KEY, "send", "--csv", "list.csv"]  # fmt: skip
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, env=env, check=True, text=True)
    os.close(theirs)
    shown = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.stdout == "30 accepted, 0 known already, 0 refused.\n"
    assert "30/30" in shown
    assert "━" in shown
