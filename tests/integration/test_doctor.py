"""The doctor finds real mistakes and says in one sentence what to fix."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import redis
from typer.testing import CliRunner

from support.servers import StoreServer
from support.socks_server import SocksServer
from wa_orchestrator.cli import app
from wa_orchestrator.doctor import Finding, examine
from wa_orchestrator.settings import described_settings
from wa_orchestrator.store.valkey_server import find_binary

SECRET = "invented-s3cret"


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for _, name, _, _ in described_settings():
        monkeypatch.delenv(name, raising=False)
    for name in [name for name in os.environ if name.startswith("PROXY_URL_")] + ["RUNNER", "DOCKER_HOST"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def finding(name: str, **environ: str) -> Finding:
    """What the doctor says about `name`; it runs outside of any loop, as the command does."""
    given = {"PATH": os.environ["PATH"], "ORCH_PORT": "0", **environ}
    found = examine(given, probe_proxies=name.startswith("proxy "))
    assert not any(SECRET in one.text + one.fix for one in found)
    return next(one for one in found if one.name == name)


def wrong(name: str, **environ: str) -> str:
    """The two sentences of a failed check."""
    found = finding(name, **environ)
    assert found.ok is False, found
    assert found.text.endswith((".", "]"))
    assert found.fix
    return f"{found.text} {found.fix}"


# the command ------------------------------------------------------------------------------------------------------
def test_healthy_installation_is_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "worker.mjs").touch()
    monkeypatch.setattr("wa_orchestrator.worker_program._PLACES", (tmp_path,))
    result = CliRunner().invoke(app, ["doctor"], env={"ORCH_PORT": "0", "PROXY_URL_1": "socks5h://u:p@h:1080"})
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("All is well.\n")
    assert {line[0] for line in result.stdout.splitlines()[:-1]} == {"✔", "–"}


def test_failing_check_ends_with_status_1_and_its_fix() -> None:
    result = CliRunner().invoke(app, ["doctor"], env={"ORCH_PORT": "0", "TIMEZONE": "Mars/Olympus"})
    assert result.exit_code == 1
    line = next(line for line in result.stdout.splitlines() if "time zone" in line)
    assert line.startswith("✘")
    assert "TIMEZONE must be a time zone such as Asia/Jerusalem, not 'Mars/Olympus'." in line


def test_json_has_every_finding(tmp_path: Path) -> None:
    words = ["--data-dir", str(tmp_path / "other"), "doctor", "--json"]
    answer = json.loads(CliRunner().invoke(app, words, env={"ORCH_PORT": "0", "TIMEZONE": "Mars"}).stdout)
    assert answer["ok"] is False
    by_name = {one["name"]: one for one in answer["findings"]}
    assert by_name["time zone"]["fix"] == "Correct TIMEZONE in the environment or in .env."
    assert str(tmp_path / "other") in by_name["data folder"]["text"]
    assert not (tmp_path / "other").exists()


# settings and machine ---------------------------------------------------------------------------------------------
def test_every_wrong_setting_is_named_at_once() -> None:
    said = wrong("settings", ORCH_PORT="high", MAX_BACKUPS="0", LOG_LEVEL="loud")
    assert "ORCH_PORT must be a whole number, not 'high'." in said
    assert "MAX_BACKUPS must be between 1 and 10000, not 0." in said
    assert "LOG_LEVEL must be one of debug, info, warning, error, not 'loud'." in said


def test_data_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert wrong("data folder", DATA_DIR="file").startswith(f"{tmp_path}/file is a file, not a folder. Set DATA_DIR")


def test_folder_that_nobody_can_write_to_is_named() -> None:
    said = wrong("data folder", DATA_DIR="/proc/wa-orchestrator")
    assert said.startswith("Nothing can be written to /proc: ")
    assert said.endswith("Set DATA_DIR to a folder that the server's user may write to.")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_write_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir(mode=0o500)
    assert "Permission denied" in wrong("data folder", DATA_DIR="kept")


def test_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 1_000_000, "total": 10**12})
    monkeypatch.setattr("wa_orchestrator.doctor.machine.shutil.disk_usage", lambda _: usage)
    assert "Free at least 0.5 GB" in wrong("free space")


def write_secrets(folder: Path, text: str, mode: int = 0o600) -> None:
    file = folder / "secrets.json"
    file.write_text(text)
    file.chmod(mode)


GOOD_SECRETS = json.dumps({"apiKey": SECRET, "webhookSecret": SECRET})


def test_secrets_must_be_the_owners_own(tmp_path: Path) -> None:
    write_secrets(tmp_path, GOOD_SECRETS, 0o644)
    said = wrong("secrets", DATA_DIR=".")
    assert said == f"Other users may read {tmp_path}/secrets.json (mode 0644). Run: chmod 600 {tmp_path}/secrets.json"
    write_secrets(tmp_path, GOOD_SECRETS)
    assert finding("secrets", DATA_DIR=".").ok


@pytest.mark.parametrize("text", ["", "{", "[]", '{"apiKey": "invented"}'])
def test_damaged_secrets_are_named(tmp_path: Path, text: str) -> None:
    write_secrets(tmp_path, text)
    assert "secrets.json is damaged." in wrong("secrets", DATA_DIR=".")


def test_secrets_that_do_not_exist_yet_are_no_fault() -> None:
    assert finding("secrets").ok is None


def test_low_file_limit_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    said = wrong("file handles")
    assert said.startswith("This user may open only 1024 files at once. Run `ulimit -n 8192`")
    # what the shell gave is no fault where the server may take more
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, resource.RLIM_INFINITY))
    assert finding("file handles").ok


# store ------------------------------------------------------------------------------------------------------------
def test_given_store_is_asked_for_its_version(any_server: StoreServer) -> None:
    found = finding("store", REDIS_URL=any_server.url)
    assert found.ok
    assert found.text.endswith(f" (at 127.0.0.1:{any_server.port})")


def test_wrong_store_password_is_named(valkey: StoreServer) -> None:
    with redis.Redis(port=valkey.port) as client:
        client.acl_setuser("invented", enabled=True, passwords=[f"+{SECRET}"], categories=["+@all"])
        client.acl_setuser("weak", enabled=True, passwords=[f"+{SECRET}"], commands=["+ping"])
    try:
        place = f"127.0.0.1:{valkey.port}"
        said = wrong("store", REDIS_URL=f"redis://invented:{SECRET}x@{place}/0")
        assert said == f"The store at {place} refuses the login. Correct the password in REDIS_URL."
        assert "the right to call INFO" in wrong("store", REDIS_URL=f"redis://weak:{SECRET}@{place}/0")
        assert finding("store", REDIS_URL=f"redis://invented:{SECRET}@{place}/0").ok
    finally:
        with redis.Redis(port=valkey.port) as client:
            client.acl_deluser("invented", "weak")


def test_missing_store_password_is_named(valkey: StoreServer) -> None:
    with redis.Redis(port=valkey.port) as client:
        client.config_set("requirepass", SECRET)
    try:
        assert "refuses the login" in wrong("store", REDIS_URL=valkey.url)
    finally:
        with redis.Redis(port=valkey.port, password=SECRET) as client:
            client.config_set("requirepass", "")


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        (f"redis://:{SECRET}@127.0.0.1:1/0", "Nothing answers at 127.0.0.1:1. Start the store, or correct host and"),
        (f"redis://:{SECRET}@store.invalid/0", "Nothing answers at store.invalid:6379."),
        (f"unix://:{SECRET}@/nowhere/store.sock", "Nothing answers at /nowhere/store.sock."),
        (f"http://:{SECRET}@127.0.0.1", "REDIS_URL cannot be read. REDIS_URL must look like redis://:password@host"),
        (f"redis://:{SECRET}@127.0.0.1:no/0", "What answers at 127.0.0.1 is no Redis or Valkey."),
    ],
)
def test_wrong_store_address_is_named_without_its_password(url: str, sentence: str) -> None:
    assert wrong("store", REDIS_URL=url).startswith(sentence)


def test_something_else_at_the_stores_address_is_named(other_program: int) -> None:
    said = wrong("store", REDIS_URL=f"redis://127.0.0.1:{other_program}/0")
    assert f"127.0.0.1:{other_program}" in said


def test_embedded_store_is_found() -> None:
    found = finding("store")
    assert found.ok
    assert "embedded, starts with the server" in found.text


def test_running_embedded_store_is_recognised(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    (folder / "port").write_text(str(port))
    (folder / "password").write_text(SECRET)
    options = ["--port", str(port), "--requirepass", SECRET, "--dir", str(folder), "--save", ""]
    process = subprocess.Popen([find_binary(), *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while "Ready to accept connections" not in process.stdout.readline():
            assert process.poll() is None
        assert "embedded, running" in finding("store", DATA_DIR=".").text
    finally:
        process.kill()
        process.communicate()


def test_missing_store_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wa_orchestrator.store.valkey_server._packaged_binary", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert "set REDIS_URL to a Redis 7+ or Valkey server" in wrong("store")


def test_old_store_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho 'Redis server v=6.2.14 sha=00000000:0'\n")
    program.chmod(0o755)
    monkeypatch.setattr("wa_orchestrator.store.valkey_server._packaged_binary", lambda: program)
    assert "is too old. Use Redis 7 or newer" in wrong("store")


# port -------------------------------------------------------------------------------------------------------------
class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        raw = self.server.body  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Silent."""


def serving(body: bytes) -> Iterator[int]:
    server = HTTPServer(("127.0.0.1", 0), _Handler)
    server.body = body  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def other_program() -> Iterator[int]:
    yield from serving(b"<html>another program</html>")


@pytest.fixture
def own_server() -> Iterator[int]:
    yield from serving(json.dumps({"status": "ok", "version": "0.1.0", "store": "ok", "sessions": {}}).encode())


def test_port_of_another_program_is_named(other_program: int) -> None:
    said = wrong("port", ORCH_PORT=str(other_program))
    assert said == (
        f"Another program listens at 127.0.0.1:{other_program}. Stop that program, or set ORCH_PORT to a free port."
    )


def test_silent_program_on_the_port_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wa_orchestrator.doctor.network._TIMEOUT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert "Another program listens" in wrong("port", ORCH_PORT=str(silent.getsockname()[1]))


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])  # noqa: S104 - nothing is bound
def test_port_of_our_own_server_is_fine(own_server: int, host: str) -> None:
    found = finding("port", ORCH_PORT=str(own_server), ORCH_HOST=host)
    assert found.ok
    assert found.text == f"Our server 0.1.0 runs at {host}:{own_server} (ok)."


@pytest.mark.parametrize("host", ["192.0.2.1", "orchestrator.invalid"])
def test_foreign_address_to_listen_on_is_named(host: str) -> None:
    assert wrong("port", ORCH_PORT="3001", ORCH_HOST=host).startswith(f"{host} is no address of this machine.")


# workers ----------------------------------------------------------------------------------------------------------
def test_missing_worker_build_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wa_orchestrator.worker_program._PLACES", (tmp_path,))
    assert wrong("worker").startswith("There is no worker program. The worker is not built. Run `make setup`")


def test_missing_node_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wa_orchestrator.worker_program.sys.executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    assert wrong("node") == "Node was not found. Install Node 20 or newer, or run `make setup`."


@pytest.mark.parametrize(
    ("says", "sentence"), [("v18.19.0", "is Node v18.19.0. Install Node 20"), ("nonsense", "cannot be run. Install")]
)
def test_old_or_broken_node_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str, sentence: str) -> None:
    node = tmp_path / "node"
    node.write_text(f"#!/bin/sh\necho {says}\n")
    node.chmod(0o755)
    monkeypatch.setattr("wa_orchestrator.worker_program.sys.executable", "/nowhere/python")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert sentence in wrong("node")


def test_own_worker_command_is_checked_instead_of_node() -> None:
    assert "nowhere-worker, was not found." in wrong("node", WORKER_COMMAND="nowhere-worker --x")
    assert "cannot be read. Check its quotes." in wrong("node", WORKER_COMMAND="'x")
    assert finding("node", WORKER_COMMAND="sh -c true").ok
    assert finding("worker", WORKER_COMMAND="sh -c true").ok is None


def test_docker_is_only_looked_for_when_it_runs_the_workers(tmp_path: Path, other_program: int) -> None:
    assert finding("docker").ok is None
    gone = wrong("docker", RUNNER="docker", DOCKER_HOST=f"unix://{tmp_path}/gone.sock")
    assert gone.startswith(f"Docker does not answer at unix://{tmp_path}/gone.sock. Start Docker")
    foreign = wrong("docker", RUNNER="docker", DOCKER_HOST=f"tcp://127.0.0.1:{other_program}")
    assert "is not Docker" in foreign


def test_docker_that_answers_is_fine() -> None:
    for port in serving(b"OK"):
        assert finding("docker", RUNNER="docker", DOCKER_HOST=f"tcp://127.0.0.1:{port}").ok


# proxies ----------------------------------------------------------------------------------------------------------
def test_wrong_proxy_urls_are_named_by_their_variable() -> None:
    said = wrong("proxies", PROXY_URL_2=f"socks5://u:{SECRET}@h:1", PROXY_URL_1=f"socks5h://u:{SECRET}@h")
    assert said.startswith("PROXY_URL_1: The port is missing.")
    assert "PROXY_URL_2: socks5:// would look names up on this server" in said


def test_wrong_lines_of_the_proxy_file_are_named(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"# mine\nh:1080:u:p\nhttp://u:{SECRET}@h:1\n")
    assert wrong("proxies", PROXY_FILE="list.txt").startswith("list.txt line 3: http:// is not supp")
    assert "cannot be read: No such file" in wrong("proxies", PROXY_FILE="gone.txt")


def test_good_proxies_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("h:1080:u:p\nh:1081:u:p\n")
    environ = {"PROXY_FILE": "list.txt", "PROXY_URL_1": "socks5h://u:p@h:1080", "PROXY_URL_2": " "}
    assert finding("proxies", **environ).text == "2 configured."


@pytest.fixture
def socks_server() -> Iterator[SocksServer]:
    """In a loop of its own: the doctor, like the command, runs outside of one."""
    import asyncio

    loop = asyncio.new_event_loop()
    server = SocksServer(user="invented", password=SECRET, fault="reply-0")
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    yield server
    asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_probe_finds_out_which_proxies_work(socks_server: SocksServer, other_program: int) -> None:
    name = f"proxy 127.0.0.1:{socks_server.port}"
    target = f"127.0.0.1:{other_program}"
    good = {"PROXY_URL_1": socks_server.url, "PROXY_CHECK_TARGET": target}
    assert finding(name, **good).ok
    bad = {**good, "PROXY_URL_1": f"socks5h://invented:other@127.0.0.1:{socks_server.port}"}
    found = finding(name, **bad)
    assert found.ok is False
    assert found.text.startswith("The proxy refused the user name or password.")
