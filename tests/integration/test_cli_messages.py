"""Sending, following and pacing messages from the command line, against a whole server in a thread of its own."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pty
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pytest
import structlog
from typer.testing import CliRunner, Result

from support.control_plane import API_KEY, ControlPlane, control_plane, now_ms, signed_headers
from wa_orchestrator.cli import app
from wa_orchestrator.logs import configure_logs

T = TypeVar("T")
ZONE = ZoneInfo("Asia/Jerusalem")
# nine in the morning in a month: as typed, as the API tells it, as people read it
MOMENT = datetime.now(ZONE).replace(hour=9, minute=0, second=0, microsecond=0) + timedelta(days=30)
TYPED, SHOWN = MOMENT.strftime("%Y-%m-%dT%H:%M"), MOMENT.strftime("%Y-%m-%d %H:%M:%S")
TOLD = MOMENT.astimezone(UTC).isoformat(timespec="milliseconds")
LATER = MOMENT.astimezone(UTC) + timedelta(hours=1)
_numbers = itertools.count(1)


class Worker:
    """Claims what is in a session's outbox and answers as told: ack, or nack with a code."""

    def __init__(self, plane: ControlPlane, session_id: str, *, refuse: str | None = None) -> None:
        self._plane = plane
        self._session_id = session_id
        self._refuse = refuse
        self.seen: list[dict[str, Any]] = []

    async def run(self) -> None:
        while True:
            for message in (await self._call("claim", {"max": 50, "waitMs": 200}))["messages"]:
                self.seen.append(message)
                await self._answer(message)

    async def _answer(self, message: dict[str, Any]) -> None:
        about = {"messageId": message["messageId"], "token": message["lease"]["token"]}
        if self._refuse:
            error = {"code": self._refuse, "message": "No such number."}
            await self._call("nack", {**about, "error": error, "retryable": False})
            return
        await self._call("ack", {**about, "sentAt": now_ms(), "waMessageId": message["waMessageId"]})
        await self._plane.event(
            self._session_id, "MESSAGE_STATUS", {"waMessageId": message["waMessageId"], "status": "delivered"}
        )

    async def _call(self, what: str, body: dict[str, Any]) -> Any:
        path = f"/api/worker/sessions/{self._session_id}/outbox/{what}"
        answer = await self._plane.signed(path, body, session_id=self._session_id)
        assert answer.status == 200, answer.body
        return answer.json

    async def media(self, media_id: str) -> bytes:
        path = f"/api/worker/sessions/{self._session_id}/media/{media_id}"
        return (await self._plane.call("GET", path, headers=signed_headers(self._session_id, b""), key=None)).body


class Server:
    """A control plane with its own loop and thread, so that a command may block on it."""

    def __init__(self, plane: ControlPlane, loop: asyncio.AbstractEventLoop) -> None:
        self.plane = plane
        self.url = plane.url
        self._loop = loop

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def connected(self, *, unpaced: bool = True) -> str:
        """A linked session of a new phone."""
        phone = f"9725000{next(_numbers):05}"
        session_id = self.do(self.plane.provision())
        self.do(self.plane.event(session_id, "CONNECTED", {"phoneNumber": phone, "fingerprint": "x"}, seq=1))
        if unpaced:
            assert ask(self, "limits", "set", session_id, "--unpaced").exit_code == 0
        return session_id

    def message(self, message_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.do(self.plane.good("GET", f"/api/v1/messages/{message_id}"))
        return found

    @contextmanager
    def worker(self, session_id: str, *, refuse: str | None = None) -> Iterator[Worker]:
        worker = Worker(self.plane, session_id, refuse=refuse)
        task = asyncio.run_coroutine_threadsafe(worker.run(), self._loop)
        yield worker
        assert not task.done() or task.exception() is None
        task.cancel()


@contextmanager
def served(data: Path, **environ: str) -> Iterator[Server]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    @asynccontextmanager
    async def ready() -> AsyncIterator[ControlPlane]:
        async with control_plane(data, **environ) as plane:
            await plane.add_proxies(10)
            yield plane

    opened = ready()
    try:
        plane = asyncio.run_coroutine_threadsafe(opened.__aenter__(), loop).result(timeout=30)
        yield Server(plane, loop)
    finally:
        asyncio.run_coroutine_threadsafe(opened.__aexit__(None, None, None), loop).result(timeout=30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    configure_logs(level="error", stream=sys.__stderr__)  # the server's lines are not the command's
    with served(tmp_path_factory.mktemp("data")) as running:
        yield running
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        _prepare(monkeypatch, tmp_path)
        yield
    time.tzset()


def _prepare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("ORCH_URL", "ORCH_PORT", "API_KEY", "DATA_DIR", "REDIS_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TZ", "Asia/Jerusalem")
    time.tzset()
    monkeypatch.setattr("wa_orchestrator.cli.messages._LOOK_EVERY_S", 0.01)
    monkeypatch.setattr("wa_orchestrator.cli.send_csv._FIRST_PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)


def run(*words: str, input: str | bytes | None = None) -> Result:  # noqa: A002 - the runner's name
    result = CliRunner().invoke(app, list(words), input=input, prog_name="wa-orchestrator")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def ask(server: Server, *words: str, input: str | bytes | None = None) -> Result:  # noqa: A002
    return run("--url", server.url, "--api-key", API_KEY, *words, input=input)


def asked(server: Server, *words: str, input: str | bytes | None = None) -> Any:  # noqa: A002
    result = ask(server, *words, "--json", input=input)
    return json.loads(result.stdout)


# one message ------------------------------------------------------------------------------------------------------
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


# looking at messages ----------------------------------------------------------------------------------------------
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


def asked_id(server: Server, session_id: str) -> str:
    sent = ask(server, "send", "972521111112", "Hello", "--session", session_id, "--wait")
    assert sent.exit_code == 1
    return sent.stdout.split(maxsplit=1)[0]


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


# limits -----------------------------------------------------------------------------------------------------------
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


# many from a file -------------------------------------------------------------------------------------------------
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
    assert time.monotonic() - began < 5
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


# help -------------------------------------------------------------------------------------------------------------
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
