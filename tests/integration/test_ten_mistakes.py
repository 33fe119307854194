"""Ten set-up mistakes, made on purpose: `doctor` finds each, and `up` ends with a sentence instead of a traceback."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.control_plane import SILENT_WORKER, ControlPlane
from support.waiting import wait_until
from wa_orchestrator.cli import app

PROXY = "socks5h://user:invented@proxy.example:1080"
# the same program, as if its worker had never been built
UNBUILT = "import wa_orchestrator.worker_program as w; w._PLACES = (); from wa_orchestrator.cli import main; main()"
PROGRAM = "from wa_orchestrator.cli import main; main()"


@dataclass(frozen=True)
class Mistake:
    """`check`: the doctor's line about it. `told`: what both say; the sentence must tell what to do."""

    name: str
    check: str
    told: str
    to_do: str
    environ: dict[str, str] = field(default_factory=dict)
    program: str = PROGRAM
    files: int = 0  # ulimit -n


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def mistakes(taken_port: int) -> list[Mistake]:
    return [
        Mistake("wrong Redis URL", "store", "REDIS_URL", "host", {"REDIS_URL": "redis://127.0.0.1:1/0"}),
        Mistake(
            "no Redis URL at all", "store", "REDIS_URL must look like", "redis://:password@host", {"REDIS_URL": "6379"}
        ),
        Mistake("port taken", "port", str(taken_port), "ORCH_PORT", {"ORCH_PORT": str(taken_port)}),
        Mistake("bad proxy URL", "proxies", "PROXY_URL_", "socks5h://", {"PROXY_URL_1": "http://u:p@proxy.example:80"}),
        Mistake(
            "missing worker build", "worker", "The worker is not built.", "make setup", {"WORKER_COMMAND": ""}, UNBUILT
        ),
        Mistake("unwritable folder", "data folder", "/proc", "DATA_DIR", {"DATA_DIR": "/proc/wa-orchestrator"}),
        Mistake(
            "wrong time zone", "time zone", "TIMEZONE must be a time zone", "Asia/Jerusalem", {"TIMEZONE": "Mars/Sea"}
        ),
        Mistake("bad backup time", "backup time", "BACKUP_AT", "03:00", {"BACKUP_AT": "every day at 3"}),
        Mistake("too few file handles", "file handles", "only 200 files", "ulimit -n 8192", files=200),
    ]


NAMES = [mistake.name for mistake in mistakes(0)]


def environment(mistake: Mistake, folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "LANG": "C.UTF-8",
        "ORCH_PORT": "0",
        "PROXY_URL_1": PROXY,
        "WORKER_COMMAND": SILENT_WORKER,
        "DATA_DIR": str(folder / "data"),
        **mistake.environ,
    }


def run(mistake: Mistake, words: list[str], folder: Path) -> Said:
    """The command as a process of its own."""
    folder.mkdir(parents=True)
    limit = f"ulimit -n {mistake.files}; " if mistake.files else ""
    command = ["/bin/sh", "-c", f'{limit}exec "$0" -c "$1" {" ".join(words)}', sys.executable, mistake.program]
    done = subprocess.run(
        command, env=environment(mistake, folder), cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    return Said(done.returncode, done.stdout, done.stderr)


def doctor(mistake: Mistake, folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str]:
    """The doctor's words; here, because starting Python takes longer than all his checks."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr("wa_orchestrator.doctor.network._TIMEOUT_S", 0.2)
    if mistake.files:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (mistake.files, mistake.files))
    if mistake.program == UNBUILT:
        monkeypatch.setattr("wa_orchestrator.worker_program._PLACES", ())
    for name in [name for name in os.environ if name.startswith(("PROXY_", "REDIS_", "API_KEY"))]:
        monkeypatch.delenv(name)
    result = CliRunner().invoke(app, ["doctor"], env=environment(mistake, folder))
    return result.exit_code, result.stdout


@pytest.fixture(scope="module")
def said(taken_port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Future[Said]]]:
    """`up` with every mistake; a few at a time, because most of it is starting Python."""
    folder = tmp_path_factory.mktemp("mistakes")
    with ThreadPoolExecutor(3) as pool:
        yield {
            mistake.name: pool.submit(run, mistake, ["up"], folder / str(number))
            for number, mistake in enumerate(mistakes(taken_port))
        }


@pytest.mark.parametrize("name", NAMES)
def test_doctor_finds_it(name: str, taken_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mistake = next(one for one in mistakes(taken_port) if one.name == name)
    code, out = doctor(mistake, tmp_path, monkeypatch)
    assert code == 1, out
    wrong = [line for line in out.splitlines() if line.startswith("✘")]
    assert [line.split("  ")[0].removeprefix("✘ ").strip() for line in wrong] == [mistake.check], out
    assert mistake.told in wrong[0]
    assert mistake.to_do in wrong[0]
    assert out.endswith("1 to fix.\n")


@pytest.mark.parametrize("name", NAMES)
def test_up_ends_with_one_sentence(said: dict[str, Future[Said]], name: str, taken_port: int) -> None:
    mistake = next(one for one in mistakes(taken_port) if one.name == name)
    result = said[name].result()
    assert result.code == 1, result
    lines = [line for line in result.err.splitlines() if line.strip() and "[info" not in line]
    assert len(lines) == 1, result.err
    assert mistake.told in lines[0]
    assert mistake.to_do in lines[0]
    assert "Traceback" not in result.err
    assert "is ready" not in result.out


def test_no_proxies_is_found_and_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server without proxies starts: they can be added while it runs."""
    none = Mistake("no proxies", "proxies", "", "", {"PROXY_URL_1": ""})
    _, out = doctor(none, tmp_path, monkeypatch)
    (line,) = [line for line in out.splitlines() if line.startswith("✘")]
    assert line.split()[1] == "proxies"
    assert "PROXY_URL_1=socks5h://user:pass@host:port" in line
    said = _first_words_of_up(tmp_path / "up")
    assert "There are no proxies yet" in said
    assert "wa-orchestrator proxies add" in said


def _first_words_of_up(folder: Path) -> str:
    folder.mkdir()
    environ = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "ORCH_PORT": "0", "WORKER_COMMAND": SILENT_WORKER}
    ready = folder / "ready.json"
    command = [sys.executable, "-c", PROGRAM, "up", "--ready-file", str(ready)]
    with (folder / "out").open("wb") as out:
        server = subprocess.Popen(command, env=environ, cwd=folder, stdout=out, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + 30
            while not ready.exists() and server.poll() is None and time.monotonic() < until:
                time.sleep(0.05)
        finally:
            server.terminate()
            server.wait(timeout=30)
    return (folder / "out").read_text(encoding="utf-8")


async def test_an_expired_key_is_found(plane: ControlPlane, tmp_path: Path) -> None:
    soon = {"name": "till", "rights": ["read"], "expiresAt": int(time.time() * 1000) + 3000}
    key = (await plane.good("POST", "/api/v1/keys", soon, status=201))["key"]

    async def expired() -> bool:
        return (await plane.call("GET", "/api/sessions", key=key)).code == "KEY_EXPIRED"

    await wait_until(expired, timeout_s=30)
    with_key = Mistake(
        "expired key",
        "api key",
        "",
        "",
        {"API_KEY": key, "DATA_DIR": str(plane.data), "ORCH_PORT": plane.url.rsplit(":")[-1]},
    )
    for number, words in enumerate((["doctor"], ["sessions", "list"])):
        result = await asyncio.to_thread(run, with_key, words, tmp_path / str(number))
        assert result.code == 1, result
        assert "This API key has expired." in result.out + result.err
        assert "Traceback" not in result.err
    good = Mistake("good key", "api key", "", "", {**with_key.environ, "API_KEY": "test-key"})
    result = await asyncio.to_thread(run, good, ["doctor"], tmp_path / "good")
    assert f"api key       Accepted by the server at {plane.url}." in result.out
