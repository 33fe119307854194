"""`wa-orchestrator up`: how it starts, what it says, how it looks after its workers."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.control_plane import TINY_WORKER, proxy_url
from support.leftovers import end_all_below
from support.system import PROGRAM, System, wait_for

PHONE = "972501234567"


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    made = System(
        tmp_path, simulate=False, WORKER_COMMAND=TINY_WORKER, PROVISIONING_INTERVAL_MS=200, PROXY_BAD_AFTER=100,
        PROXY_TIMEOUT_MS=200, PROXY_CHECK_TARGET="127.0.0.1:1", PROXY_URL_1=proxy_url(0), SCAN_TIMEOUT_MS=3000,
    )  # fmt: skip
    made.start()
    try:
        yield made
    finally:
        try:
            made.stop()
        finally:
            asyncio.run(end_all_below(made.data))


def run_up(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "WORKER_COMMAND": TINY_WORKER, **settings}
    return subprocess.run(
        [str(PROGRAM), "up", *arguments], env=env, cwd=folder, capture_output=True, text=True, timeout=30, check=False
    )


def assert_one_sentence(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


def test_a_session_lives_from_the_first_code_to_a_restart_after_a_crash(system: System) -> None:
    scanned, forgotten = system.provision(sessionId="scanned"), system.provision(sessionId="forgotten")
    wait_for(lambda: system.session(scanned)["status"] == "qr_ready", what="the code")
    (system.data / "sessions" / scanned / "connect-as").write_text(PHONE)
    wait_for(lambda: system.session(scanned)["status"] == "connected", what="the connection")
    # the worker is killed: noticed at once, restarted, connected again without a scan
    pid = _worker_pid(system, scanned)
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: _worker_pid(system, scanned) not in {0, pid}, what="the worker to come back")
    wait_for(lambda: system.session(scanned)["restarts"] == 1, what="the restart to be counted")
    wait_for(lambda: system.session(scanned)["status"] == "connected", what="the connection to come back")
    # nobody scanned the other one: its slot is given back, its worker ended
    wait_for(lambda: system.session(forgotten)["reason"] == "SCAN_TIMEOUT", what="the slot to be given back")
    found = system.session(forgotten)
    assert (found["status"], found["proxy"]) == ("stopped", None)
    wait_for(lambda: not _worker_pid(system, forgotten), what="its worker to end")
    assert system.api.get("/api/v1/proxies")["proxies"][0]["sessions"] == [scanned]
    # and it may be started again
    system.api.post(f"/api/sessions/{forgotten}/start")
    wait_for(lambda: system.session(forgotten)["status"] == "qr_ready", what="a new code")


def _worker_pid(system: System, session_id: str) -> int:
    file = system.data / "run" / f"{session_id}.pid"
    try:
        pid = int(file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0
    return pid if Path(f"/proc/{pid}/environ").exists() else 0


def test_secrets_are_shown_once_kept_and_private(system: System) -> None:
    key = system.ready["apiKey"]
    file = system.data / "secrets.json"
    assert json.loads(file.read_text())["apiKey"] == key
    for private in (file, system.folder / "ready.json", system.data / "store" / "password"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600, private
    assert stat.S_IMODE(system.data.stat().st_mode) == 0o700
    assert system.log.read_text().count(key) == 1
    secret = json.loads(file.read_text())["webhookSecret"]
    assert secret not in system.log.read_text()
    system.stop()
    system.start()
    assert system.ready["apiKey"] == key
    assert system.log.read_text().count(key) == 1, "shown once, not at every start"


def test_a_second_server_on_the_same_folder_is_refused_in_one_sentence(system: System) -> None:
    done = run_up(system.folder, "--data-dir", str(system.data), "--port", "0")
    assert_one_sentence(done, "Another server already runs", str(system.data))
    assert system.api.get("/health")["status"] == "ok", "the first one is not disturbed"


def test_a_taken_port_is_said_in_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = run_up(tmp_path, "--data-dir", str(tmp_path / "data"), "--port", port)
    assert_one_sentence(done, "Cannot listen", port, "--port")
    assert not (tmp_path / "data" / "store" / "valkey.pid").exists(), "nothing was started for it"


def test_a_store_that_is_not_there_is_said_in_one_sentence(tmp_path: Path) -> None:
    done = run_up(tmp_path, "--data-dir", "data", "--port", "0", REDIS_URL="redis://:s3cr3t@127.0.0.1:1/0")
    assert_one_sentence(done, "REDIS_URL")
    assert "s3cr3t" not in done.stderr


def test_a_wrong_setting_is_said_in_one_sentence(tmp_path: Path) -> None:
    assert_one_sentence(run_up(tmp_path, MAX_SESSIONS_PER_PROXY="many"), "MAX_SESSIONS_PER_PROXY", "many")
    wrong = run_up(tmp_path, "--data-dir", "data", "--port", "0", PROXY_URL_1="socks5://u:s3cr3t@h:1")
    assert "socks5h://" in wrong.stderr
    assert "s3cr3t" not in wrong.stderr + wrong.stdout
    assert wrong.returncode != 0
    asyncio.run(end_all_below(tmp_path))
