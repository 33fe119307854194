"""The command line against a real HTTP server that speaks the API."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from typer.testing import CliRunner, Result

import wa_orchestrator
from wa_orchestrator.cli import app

KEY = "invented-api-key"
SECRET = "invented-s3cret"
SOURCES = str(Path(wa_orchestrator.__file__).parent.parent)
NO_CODE = (404, {"error": {"code": "QR_NOT_READY", "message": "There is no QR code yet.", "requestId": "r"}})
CONNECTED = (409, {"error": {"code": "ALREADY_CONNECTED", "message": "It needs no code.", "requestId": "r"}})
Reply = tuple[int, Any]


def code(text: str) -> Reply:
    return 200, {"qr": text, "image": "data:image/png;base64,", "expiresAt": "2030-01-01T00:00:00Z"}


def session(session_id: str, status: str = "connected", **more: Any) -> dict[str, Any]:
    view = {"sessionId": session_id, "status": status, "reason": None, "wanted": "running", "phone": "972501234567",
            "label": "shop", "metadata": {"team": "a"}, "proxy": {"id": "px_1", "host": "p.example", "port": 1080},
            "createdAt": "2025-01-01T00:00:00Z", "connectedAt": "2025-01-01T00:01:00Z",
            "lastPing": "2025-01-01T00:02:00Z",
            "lastDisconnect": {"at": "2025-01-01T00:00:30Z", "reason": "restartRequired", "code": 515},
            "restarts": 2, "worker": {"connection": "open", "rssBytes": 52_000_000}}  # fmt: skip
    return {**view, **more}


def proxy(proxy_id: str, status: str = "active", **more: Any) -> dict[str, Any]:
    view = {"id": proxy_id, "host": f"{proxy_id}.example", "port": 1080, "status": status, "slotsUsed": 1,
            "slotsTotal": 4, "sessions": ["worker_1"], "boundPhones": 3, "draining": False, "latencyMs": 80,
            "exitIp": None, "lastError": None, "checkedAt": "2025-01-01T00:00:00Z", "badAt": None}  # fmt: skip
    return {**view, **more}


def missing(session_id: str) -> Reply:
    return 404, {"error": {"code": "SESSION_NOT_FOUND", "message": f"There is no session {session_id}.",
                           "details": {"sessionId": session_id}, "requestId": "req-1"}}  # fmt: skip


class ScriptedServer(ThreadingHTTPServer):
    """Answers as told: `on(method, path, replies…)`, the last reply for ever. Keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.replies: dict[tuple[str, str], list[Reply | Callable[[dict[str, list[str]]], Reply]]] = {}
        self.asked: list[tuple[str, str, str]] = []  # method, path with query, body
        self.key: str | None = KEY

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def on(self, method: str, path: str, *replies: Reply | Callable[[dict[str, list[str]]], Reply]) -> None:
        self.replies[method, path] = list(replies)


class _Handler(BaseHTTPRequestHandler):
    server: ScriptedServer

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.asked.append((self.command, self.path, body))
        parts = urlsplit(self.path)
        waiting = self.server.replies.get((self.command, unquote(parts.path)))
        if self.headers.get("X-Api-Key") != self.server.key:
            reply: Any = (401, {"error": {"code": "UNAUTHORIZED", "message": "Send the API key.", "requestId": "r"}})
        elif waiting is None:
            reply = (404, {"error": {"code": "NOT_FOUND", "message": "There is nothing here.", "requestId": "r"}})
        else:
            reply = waiting.pop(0) if len(waiting) > 1 else waiting[0]
        status, data = reply(parse_qs(parts.query)) if callable(reply) else reply
        raw = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    do_GET = do_POST = do_DELETE = answer  # noqa: N815 - the library's names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Silent."""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ORCH_URL", "ORCH_PORT", "API_KEY", "DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("wa_orchestrator.cli.qr._PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    running = ScriptedServer()
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def run(*words: str, input: str | None = None) -> Result:  # noqa: A002 - the runner's name
    result = CliRunner().invoke(app, list(words), input=input, prog_name="wa-orchestrator")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert KEY not in result.output
    assert SECRET not in result.output
    return result


def ask(server: ScriptedServer, *words: str, input: str | None = None) -> Result:  # noqa: A002
    return run("--url", server.url, "--api-key", KEY, *words, input=input)


# where the server is, and the key ---------------------------------------------------------------------------------
def list_nothing(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions", (200, {"sessions": [], "nextCursor": None, "total": 0}))


def test_url_and_key_come_from_the_environment(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    list_nothing(server)
    monkeypatch.setenv("ORCH_URL", server.url)
    monkeypatch.setenv("API_KEY", KEY)
    assert run("sessions", "list").stdout == "No sessions yet: wa-orchestrator sessions create --qr\n"


def test_url_and_key_come_from_the_data_folder(server: ScriptedServer, tmp_path: Path) -> None:
    list_nothing(server)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "server.json").write_text(json.dumps({"url": server.url}))
    (tmp_path / "kept" / "secrets.json").write_text(json.dumps({"apiKey": KEY, "webhookSecret": SECRET}))
    assert run("--data-dir", "kept", "sessions", "list").exit_code == 0
    (tmp_path / ".env").write_text("DATA_DIR=kept\n")
    assert run("sessions", "list").exit_code == 0


def test_usual_port_is_taken_from_the_settings(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    list_nothing(server)
    monkeypatch.setenv("ORCH_PORT", str(server.server_port))
    assert run("--api-key", KEY, "sessions", "list").exit_code == 0


def test_option_wins_over_environment_and_folder(server: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    list_nothing(server)
    monkeypatch.setenv("ORCH_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("API_KEY", SECRET)
    assert ask(server, "sessions", "list").exit_code == 0


def test_server_behind_a_path_is_reached(server: ScriptedServer) -> None:
    server.on("GET", "/wa/api/sessions", (200, {"sessions": [], "nextCursor": None, "total": 0}))
    assert run("--url", f"{server.url}/wa/", "--api-key", KEY, "sessions", "list").exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--url", "http://127.0.0.1:1"], "Nothing answers at http://127.0.0.1:1 (from --url): Connection refused."),
        (["--url", "http://orchestrator.invalid:1"], "Nothing answers at http://orchestrator.invalid:1 (from --url):"),
        (["--url", "ftp://127.0.0.1"], "The server's address must look like http://127.0.0.1:3001."),
        (["--url", "http://127.0.0.1:99999"], "The server's address must look like http://127.0.0.1:3001."),
        (["--url", "127.0.0.1:3001"], "The server's address must look like http://127.0.0.1:3001."),
    ],
)
def test_unreachable_server_is_one_sentence(words: list[str], sentence: str) -> None:
    result = run(*words, "sessions", "list")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith(sentence)
    assert result.stderr.count("\n") == 1


def test_missing_and_wrong_key_are_told_apart(server: ScriptedServer) -> None:
    none = run("--url", server.url, "sessions", "list")
    assert none.stderr.startswith("No API key was found. Give it with --api-key or API_KEY")
    wrong = run("--url", server.url, "--api-key", SECRET, "sessions", "list")
    assert wrong.stderr.startswith("The server does not accept this API key.")
    odd = run("--url", server.url, "--api-key", f"{SECRET}\nX: y", "sessions", "list")
    assert odd.stderr.startswith("The API key holds characters that no key has.")
    assert (none.exit_code, wrong.exit_code, odd.exit_code) == (1, 1, 1)


@pytest.mark.parametrize("reply", [(200, b"<html>"), (500, b"oops"), (404, {"detail": "Not Found"})])
def test_foreign_server_is_recognised(server: ScriptedServer, reply: Reply) -> None:
    server.on("GET", "/api/sessions", reply)
    result = ask(server, "sessions", "list")
    assert result.exit_code == 1
    assert "is not WhatsApp Orchestrator" in result.stderr


# errors and JSON --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("words", [("--json", "sessions", "show", "x"), ("sessions", "show", "x", "--json")])
def test_error_is_json_on_stdout_wherever_json_is_asked_for(server: ScriptedServer, words: tuple[str, ...]) -> None:
    server.on("GET", "/api/sessions/x", missing("x"))
    result = ask(server, *words)
    assert result.exit_code == 1
    assert result.stderr == ""
    assert json.loads(result.stdout) == {
        "error": {"code": "SESSION_NOT_FOUND", "message": "There is no session x.", "details": {"sessionId": "x"},
                  "requestId": "req-1"}
    }  # fmt: skip


def test_error_is_a_sentence_on_stderr(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions/x", missing("x"))
    result = ask(server, "sessions", "show", "x")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "There is no session x.\n")


def test_wrong_usage_is_a_sentence_with_a_hint() -> None:
    result = run("sesions")
    assert result.exit_code == 2
    assert result.stderr == (
        "No such command 'sesions'. Did you mean 'sessions', 'suppression'? See `wa-orchestrator --help`.\n"
    )
    as_json = run("sessions", "show", "--json")
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["error"]["code"] == "USAGE"


def test_broken_env_file_is_named(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("not a setting\n")
    result = run("sessions", "list")
    assert (result.exit_code, result.stderr) == (1, ".env line 1 is not NAME=value.\n")


@pytest.mark.parametrize("words", [[], ["sessions"], ["proxies"]])
def test_no_command_shows_the_help(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert "Usage: wa-orchestrator" in result.stdout
    assert result.stderr == ""


@pytest.mark.parametrize(
    "words",
    [["sessions", name] for name in ("create", "list", "show", "qr", "pairing-code", "restart", "stop", "start",
                                     "logout", "delete")]
    + [["proxies", name] for name in ("add", "list", "check", "remove", "import")] + [["doctor"]],
)  # fmt: skip
def test_every_command_has_help_and_json(words: list[str]) -> None:
    result = run(*words, "--help")
    assert result.exit_code == 0
    assert f"Usage: wa-orchestrator {' '.join(words)}" in result.stdout
    assert "--json" in result.stdout
    assert "<bool>" not in result.stdout, "a flag takes no value"


# sessions ---------------------------------------------------------------------------------------------------------
MADE = {"sessionId": "worker_1", "status": "pending", "proxy": {"id": "px_1", "host": "p.example", "port": 1080},
        "createdAt": "2025-01-01T00:00:00Z"}  # fmt: skip


def test_create_sends_only_what_was_given(server: ScriptedServer) -> None:
    server.on("POST", "/api/sessions/provision", (201, MADE))
    result = ask(server, "sessions", "create")
    assert "worker_1 is pending on proxy p.example:1080." in result.stdout
    assert "Next: wa-orchestrator sessions qr worker_1 --watch" in result.stdout
    ask(server, "sessions", "create", "--phone", "972501234567", "--proxy", f"socks5h://u:{SECRET}@h:1", "--id", "a",
        "--label", "shop", "--allow-additional", "--rebind")  # fmt: skip
    bodies = [json.loads(body) for _, _, body in server.asked]
    assert bodies == [
        {},
        {"phone": "972501234567", "proxy": f"socks5h://u:{SECRET}@h:1", "sessionId": "a", "label": "shop",
         "allowAdditional": True, "rebind": True},
    ]  # fmt: skip


def test_create_with_qr_waits_and_draws(server: ScriptedServer) -> None:
    server.on("POST", "/api/sessions/provision", (201, MADE))
    server.on("GET", "/api/sessions/worker_1/qr", NO_CODE, code("2@invented"))
    server.on("GET", "/api/sessions/worker_1", (200, session("worker_1", "pending")))
    result = ask(server, "sessions", "create", "--qr")
    assert result.exit_code == 0
    assert "█" in result.stdout
    assert "Linked devices" in result.stdout


def test_create_with_qr_and_json_is_one_object(server: ScriptedServer) -> None:
    server.on("POST", "/api/sessions/provision", (201, MADE))
    server.on("GET", "/api/sessions/worker_1/qr", code("2@invented"))
    made = json.loads(ask(server, "sessions", "create", "--qr", "--json").stdout)
    assert made == {**MADE, "qr": "2@invented", "expiresAt": "2030-01-01T00:00:00Z"}


def paged(query: dict[str, list[str]]) -> Reply:
    start, size = int(query.get("cursor", ["0"])[0]), int(query["limit"][0])
    rows = [session(f"worker_{n}") for n in range(start, min(start + size, 250))]
    return 200, {"sessions": rows, "nextCursor": str(start + size) if start + size < 250 else None, "total": 250}


def test_list_follows_the_pages_up_to_the_limit(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions", paged)
    page = json.loads(ask(server, "sessions", "list", "--limit", "230", "--json").stdout)
    assert [one["sessionId"] for one in page["sessions"]] == [f"worker_{n}" for n in range(230)]
    assert page["total"] == 250
    assert len(server.asked) == 3


def test_list_is_a_table_that_is_not_cut_off(server: ScriptedServer) -> None:
    long_id = "w" * 64
    row = session(long_id, label="[red]\x1b[31mshop", reason="NO_PROXY_AVAILABLE")
    server.on("GET", "/api/sessions", (200, {"sessions": [row], "nextCursor": None, "total": 7}))
    result = ask(server, "sessions", "list", "--status", "connected", "--search", "a b&c")
    assert long_id in result.stdout
    assert "[red]�[31mshop" in result.stdout
    assert "p.example:1080" in result.stdout
    assert "1 of 7; --limit shows more." in result.stdout
    assert server.asked[0][1] == "/api/sessions?status=connected&search=a+b%26c&limit=50"


def test_show_tells_all_that_is_known(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions/worker_1", (200, session("worker_1")))
    shown = ask(server, "sessions", "show", "worker_1").stdout
    for words in ("worker_1", "connected", "972501234567", "p.example:1080 (px_1)", "restartRequired 515", "52 MB"):
        assert words in shown


def test_show_works_for_a_bare_session(server: ScriptedServer) -> None:
    bare = dict.fromkeys(session("x")) | {"sessionId": "x", "status": "pending"}
    server.on("GET", "/api/sessions/x", (200, bare))
    assert "Proxy     none" in ask(server, "sessions", "show", "x").stdout


def test_odd_ids_stay_one_part_of_the_path(server: ScriptedServer) -> None:
    ask(server, "sessions", "show", "../a?b#c")
    assert server.asked[0][1] == "/api/sessions/..%2Fa%3Fb%23c"


def test_qr_without_waiting_says_that_there_is_none(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions/worker_1/qr", NO_CODE)
    result = ask(server, "sessions", "qr", "worker_1")
    assert (result.exit_code, result.stderr) == (1, "There is no QR code yet.\n")


def test_drawn_code_is_the_code(server: ScriptedServer) -> None:
    import segno

    server.on("GET", "/api/sessions/worker_1/qr", code("2@invented,code=="))
    drawn = ask(server, "sessions", "qr", "worker_1").stdout.splitlines()
    expected = list(segno.make("2@invented,code==", error="l", micro=False).matrix_iter(border=2))
    light = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}
    for number, line in enumerate(drawn[: len(expected) // 2]):
        pairs = [light[c] for c in line]
        assert [top for top, _ in pairs] == list(expected[2 * number])
        assert [bottom for _, bottom in pairs] == list(expected[2 * number + 1])


def test_watch_draws_each_code_once_until_connected(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions/worker_1/qr", code("first"), code("first"), code("second"), CONNECTED)
    result = ask(server, "sessions", "qr", "worker_1", "--watch", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line.get("qr") or line["status"] for line in lines] == ["first", "second", "connected"]
    server.on("GET", "/api/sessions/worker_1/qr", code("first"), CONNECTED)
    assert ask(server, "sessions", "qr", "worker_1", "--watch").stdout.endswith("worker_1 is connected.\n")


def test_watch_ends_when_the_session_connects_between_two_codes(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions/worker_1/qr", NO_CODE)
    server.on("GET", "/api/sessions/worker_1", (200, session("worker_1", "connected")))
    assert ask(server, "sessions", "qr", "worker_1", "--watch").exit_code == 0


def test_waiting_ends_when_no_code_can_come(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions/worker_1/qr", NO_CODE)
    server.on("GET", "/api/sessions/worker_1", (200, session("worker_1", "failed", reason="WRONG_PHONE")))
    result = ask(server, "sessions", "qr", "worker_1", "--wait")
    assert result.exit_code == 1
    assert "No code will come: the session is failed (WRONG_PHONE)." in result.stderr


def test_waiting_has_an_end(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions/worker_1/qr", NO_CODE)
    server.on("GET", "/api/sessions/worker_1", (200, session("worker_1", "pending")))
    result = ask(server, "sessions", "qr", "worker_1", "--wait", "--timeout", "0")
    assert result.stderr.startswith("No QR code came in time.")
    server.on("GET", "/api/sessions/worker_1/qr", code("first"))
    result = ask(server, "sessions", "qr", "worker_1", "--watch", "--timeout", "0")
    assert (result.exit_code, result.stderr[:25]) == (1, "The code was not scanned ")


def test_pairing_code_is_shown_as_the_phone_asks_for_it(server: ScriptedServer) -> None:
    server.on("POST", "/api/sessions/worker_1/pairing-code", (200, {"code": "ABCD1234", "phone": "972501234567"}))
    result = ask(server, "sessions", "pairing-code", "worker_1", "972501234567")
    assert result.stdout.startswith("ABCD-1234\n")
    assert json.loads(server.asked[0][2]) == {"phone": "972501234567"}


@pytest.mark.parametrize("verb", ["restart", "stop", "start", "logout"])
def test_orders_go_to_every_session_also_after_a_failure(server: ScriptedServer, verb: str) -> None:
    server.on("POST", f"/api/sessions/a/{verb}", missing("a"))
    server.on("POST", f"/api/sessions/b/{verb}", (200, session("b", "pending")))
    result = ask(server, "sessions", verb, "a", "b")
    assert (result.exit_code, result.stdout) == (1, "b: pending\n")
    assert result.stderr == "a: There is no session a.\n"
    answers = json.loads(ask(server, "sessions", verb, "a", "b", "--json").stdout)
    assert answers[0]["error"]["code"] == "SESSION_NOT_FOUND"
    assert answers[1]["status"] == "pending"
    alone = ask(server, "sessions", verb, "b", "--json")
    assert (alone.exit_code, json.loads(alone.stdout)["sessionId"]) == (0, "b")


def test_delete_asks_first(server: ScriptedServer) -> None:
    server.on("DELETE", "/api/sessions/a", (200, {"sessionId": "a", "deleted": True}))
    refused = ask(server, "sessions", "delete", "a", input="n\n")
    assert (refused.exit_code, server.asked) == (1, [])
    assert "Nothing was deleted." in refused.stderr
    nobody = ask(server, "sessions", "delete", "a", "--json")
    assert json.loads(nobody.stdout)["error"]["code"] == "NOT_CONFIRMED"
    assert server.asked == []
    agreed = ask(server, "sessions", "delete", "a", "--json", input="y\n")
    assert json.loads(agreed.stdout) == {"sessionId": "a", "deleted": True}
    forced = ask(server, "sessions", "delete", "a", "--forget", "--yes")
    assert forced.stdout == "a: deleted\n"
    assert [path for _, path, _ in server.asked] == ["/api/sessions/a", "/api/sessions/a?forget=true"]


# proxies ----------------------------------------------------------------------------------------------------------
def test_add_understands_vendors_forms_and_tells_new_from_known(server: ScriptedServer) -> None:
    server.on("POST", "/api/v1/proxies", (201, proxy("px_1", "testing")), (200, proxy("px_2")))
    result = ask(server, "proxies", "add", f"h:1080:u:{SECRET}", f"socks5h://u:{SECRET}@h:1081")
    assert result.stdout.splitlines() == [
        "px_1  px_1.example:1080  added, testing",
        "px_2  px_2.example:1080  known already, active",
    ]
    assert [json.loads(body)["proxy"] for _, _, body in server.asked] == [
        f"socks5h://u:{SECRET}@h:1080",
        f"socks5h://u:{SECRET}@h:1081",
    ]


def test_add_sends_nothing_when_one_is_wrong(server: ScriptedServer) -> None:
    result = ask(server, "proxies", "add", "h:1080:u:p", f"http://u:{SECRET}@h:1080")
    assert (result.exit_code, server.asked) == (1, [])
    assert result.stderr.startswith("http:// is not supported")


def test_proxy_list_shows_state_load_and_the_last_error(server: ScriptedServer) -> None:
    rows = [
        proxy("px_1", draining=True),
        proxy("px_2", "bad", latencyMs=None, lastError={"kind": "auth", "text": "The proxy refused.", "at": "x"}),
    ]
    server.on("GET", "/api/v1/proxies", (200, {"proxies": rows, "total": 2}))
    shown = ask(server, "proxies", "list").stdout
    for words in ("px_1.example:1080", "active, draining", "1/4", "80 ms", "bad", "The proxy refused."):
        assert words in shown
    assert json.loads(ask(server, "proxies", "list", "--json").stdout)["total"] == 2


def test_check_of_all_fails_when_one_does(server: ScriptedServer) -> None:
    server.on("GET", "/api/v1/proxies", (200, {"proxies": [proxy("px_1"), proxy("px_2")], "total": 2}))
    fine = {"ok": True, "kind": None, "text": "Works.", "latencyMs": 80}
    broken = {"ok": False, "kind": "refused", "text": "Nothing listens.", "latencyMs": None}
    server.on("POST", "/api/v1/proxies/px_1/check", (200, {**proxy("px_1"), "check": fine}))
    server.on("POST", "/api/v1/proxies/px_2/check", (200, {**proxy("px_2"), "check": broken}))
    result = ask(server, "proxies", "check", "--all")
    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        "✔ px_1  px_1.example:1080  Works.",
        "✘ px_2  px_2.example:1080  Nothing listens.",
    ]
    assert ask(server, "proxies", "check", "px_1").exit_code == 0
    unknown = ask(server, "proxies", "check", "px_1", "px_9", "--json")
    assert unknown.exit_code == 1
    assert [one.get("error", {}).get("code") for one in json.loads(unknown.stdout)] == [None, "NOT_FOUND"]


def test_check_wants_to_know_which(server: ScriptedServer) -> None:
    result = ask(server, "proxies", "check")
    assert (result.exit_code, result.stderr) == (2, "Name the proxies to check, or give --all.\n")


def test_remove_says_when_sessions_are_still_moving(server: ScriptedServer) -> None:
    server.on("DELETE", "/api/v1/proxies/px_1", (202, {"id": "px_1", "removed": False, "moving": 3}))
    assert "when its 3 have moved" in ask(server, "proxies", "remove", "px_1", "--drain").stdout
    server.on("DELETE", "/api/v1/proxies/px_1", (200, {"id": "px_1", "removed": True}))
    assert ask(server, "proxies", "remove", "px_1").stdout == "px_1 is removed.\n"
    assert [path for _, path, _ in server.asked] == ["/api/v1/proxies/px_1?drain=true", "/api/v1/proxies/px_1"]


def test_import_sums_up_and_names_the_lines(server: ScriptedServer, tmp_path: Path) -> None:
    answer = {"added": 2, "known": 1, "errors": [{"line": 4, "message": "This is not a proxy address."}],
              "proxies": ["px_1", "px_2", "px_3"]}  # fmt: skip
    server.on("POST", "/api/v1/proxies/import", (200, answer))
    (tmp_path / "list.txt").write_text(f"h:1:u:{SECRET}\n")
    result = ask(server, "proxies", "import", "list.txt")
    assert (result.exit_code, result.stdout) == (1, "2 added, 1 known already, 1 not understood.\n")
    assert result.stderr == "line 4: This is not a proxy address.\n"
    server.on("POST", "/api/v1/proxies/import", (200, {**answer, "errors": []}))
    assert ask(server, "proxies", "import", "-", input="h:2:ü:p\n").exit_code == 0
    assert [body for _, _, body in server.asked] == [f"h:1:u:{SECRET}\n", "h:2:ü:p\n"]


def test_import_of_what_cannot_be_read_is_a_sentence(server: ScriptedServer, tmp_path: Path) -> None:
    assert "nowhere.txt cannot be read: No such file" in ask(server, "proxies", "import", "nowhere.txt").stderr
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert ask(server, "proxies", "import", "binary").stderr == "binary is not UTF-8 text.\n"


# the program itself -----------------------------------------------------------------------------------------------
def program(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from wa_orchestrator.cli import main; main()", *words],
        env={**os.environ, "PYTHONPATH": SOURCES, **env},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_program_prints_json_and_ends_with_the_right_status(server: ScriptedServer) -> None:
    server.on("GET", "/api/sessions/x", missing("x"))
    done = program("sessions", "show", "x", "--json", ORCH_URL=server.url, API_KEY=KEY)
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "SESSION_NOT_FOUND"
    assert done.stderr == ""


def test_program_tells_its_version() -> None:
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"wa-orchestrator {wa_orchestrator.__version__}\n")


def test_help_imports_no_heavy_library() -> None:
    """Starting takes 0.15 s this way; with the server's libraries it would be a second."""
    script = (
        "import sys\nfrom wa_orchestrator.cli import main\n"
        "try: main()\nexcept SystemExit: pass\nprint('LOADED', *sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "--help"], env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    loaded = set(done.stdout.partition("LOADED")[2].split())
    heavy = {"fastapi", "redis", "aiohttp", "asyncio", "http.client", "phonenumbers", "segno", "structlog", "uvicorn"}
    assert loaded & heavy == set()
    assert re.search(r"sessions create .*--qr", done.stdout)
