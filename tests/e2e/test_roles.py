"""Gateway and dispatcher as processes of their own, several of each, beside an orchestrator; some die by kill -9."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from support.servers import StoreServer, running_server
from support.system import PROGRAM, Http, Refused, System, wait_for
from support.waiting import wait_until
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.roles import ALL_ROLES, read_roles, running_dispatcher, running_gateway
from wa_orchestrator.settings import load_settings
from wa_orchestrator.store import Store

WORKER = f"{sys.executable} {Path(__file__).resolve().parents[1] / 'support' / 'sending_worker.py'}"
PHONES = ("972500000001", "972500000002", "972500000003")
KEY = "test-key"


class RoleProcess:
    """`wa-orchestrator gateway` or `… dispatcher`, started as an operator would."""

    def __init__(self, role: str, folder: Path, *words: str, **env: str) -> None:
        folder.mkdir(parents=True)
        self._ready_file = folder / "ready.json"
        self._log = folder / "role.log"
        command = [str(PROGRAM), role, "--ready-file", str(self._ready_file), *words]
        if role == "gateway":
            command += ["--port", "0"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **env},
            )  # fmt: skip
        wait_for(lambda: self._ready_file.is_file() or self._ended(), what=f"the {role}", timeout_s=30)
        self.ready: dict[str, Any] = json.loads(self._ready_file.read_text())
        self.api = Http(self.ready.get("url", ""), {"X-Api-Key": self.ready.get("apiKey", "")})

    def _ended(self) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        return False

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=10)

    def stop(self) -> int:
        """Its exit status after SIGTERM."""
        self._process.terminate()
        return self._process.wait(timeout=15)

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def ready_file_is_there(self) -> bool:
        return self._ready_file.exists()


class Clients:
    """Clients that send through any gateway, and through another one with the same key when theirs dies."""

    def __init__(self, gateways: list[Http], session_ids: list[str], *, each: int) -> None:
        self._gateways = gateways
        self._each = each
        self.accepted: dict[str, str] = {}  # text → message id
        self.through: Counter[str] = Counter()
        self._threads = [threading.Thread(target=self._send, args=(n, one)) for n, one in enumerate(session_ids)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> bool:
        return any(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(timeout=60)
            assert not thread.is_alive()

    def _send(self, number: int, session_id: str) -> None:
        for n in range(self._each):
            text = f"{session_id} {n}"
            # every third names no sender: the router of some dispatcher finds one
            sender = {} if n % 3 == 0 else {"sessionId": session_id}
            key = f"{session_id}-{n}"
            body = {"to": f"97254{number:03}{n % 7:04}", "message": text, "idempotencyKey": key, **sender}
            self.accepted[text] = self._accepted(body, first=n)

    def _accepted(self, body: dict[str, Any], *, first: int) -> str:
        for attempt in range(200):
            gateway = self._gateways[(first + attempt) % len(self._gateways)]
            try:
                message_id = str(gateway.post("/api/v1/send", body)["messageId"])
            except (OSError, http.client.HTTPException, ValueError):
                continue
            self.through[gateway.base] += 1
            return message_id
        raise AssertionError("no gateway took it")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    proxies = {f"PROXY_URL_{n}": f"socks5h://127.0.0.1:{n}" for n in (1, 2)}
    quiet = {"PROXY_BAD_AFTER": 100, "PROXY_CHECK_TARGET": "127.0.0.1:1", "PROVISIONING_INTERVAL_MS": 200}
    system = System(tmp_path / "up", simulate=False, WORKER_COMMAND=WORKER, **proxies, **quiet)
    system.start("--roles", "orchestrator")
    try:
        yield system
    finally:
        system.stop()


def linked(system: System, phone: str) -> str:
    session_id = system.provision()
    (system.data / "sessions" / session_id / "connect-as").write_text(phone)
    system.wait_status(session_id, "connected")
    system.unpaced(session_id)
    return session_id


def handed_out(system: System) -> list[str]:
    """Texts of everything that any worker was handed, as often as it was."""
    files = (system.data / "sessions").glob("*/handed-out")
    return [line.split(" ", 1)[1] for file in files for line in file.read_text().splitlines()]


def test_messages_leave_exactly_once_while_a_gateway_and_a_dispatcher_die(system: System, tmp_path: Path) -> None:
    sessions = [linked(system, phone) for phone in PHONES]
    with pytest.raises(Refused, match="takes no messages"):
        system.api.post("/api/v1/send", {"to": "972541234567", "message": "x"})
    by_folder = ["--data-dir", str(system.data)]
    by_url = {"REDIS_URL": system.ready["redisUrl"], "API_KEY": system.ready["apiKey"]}
    with ExitStack() as stack:
        roles = {
            "gateway a": RoleProcess("gateway", tmp_path / "ga", *by_folder),
            "gateway b": RoleProcess("gateway", tmp_path / "gb", **by_url),
            "dispatcher a": RoleProcess("dispatcher", tmp_path / "da", *by_folder),
            "dispatcher b": RoleProcess("dispatcher", tmp_path / "db", **by_url),
        }
        for role in roles.values():
            stack.callback(role.close)
        gateways = [roles["gateway a"], roles["gateway b"]]
        clients = Clients([g.api for g in gateways], sessions, each=120)
        clients.start()
        wait_for(lambda: len(handed_out(system)) > 40, what="messages to flow")
        roles["dispatcher a"].kill()
        wait_for(lambda: len(handed_out(system)) > 80, what="messages to flow on")
        roles["gateway a"].kill()
        assert clients.busy, "they were killed too late to prove anything"
        clients.join()

        assert len(set(clients.accepted.values())) == 3 * 120
        assert all(clients.through[g.api.base] > 20 for g in gateways), "both gateways took part"
        list_sent = "/api/v1/messages?status=sent&limit=500"
        wait_for(lambda: len(roles["gateway b"].api.get(list_sent)["messages"]) == 3 * 120, what="all to be sent")
        assert Counter(handed_out(system)) == Counter(list(clients.accepted))

        assert [roles["gateway b"].stop(), roles["dispatcher b"].stop()] == [0, 0]
        assert not roles["gateway b"].ready_file_is_there
        assert "Traceback" not in roles["gateway b"].log + roles["dispatcher b"].log


def test_uploads_need_the_shared_folder(system: System, tmp_path: Path) -> None:
    with ExitStack() as stack:
        shared = RoleProcess("gateway", tmp_path / "shared", "--data-dir", str(system.data))
        stack.callback(shared.close)
        env = {"REDIS_URL": system.ready["redisUrl"], "API_KEY": system.ready["apiKey"]}
        alone = RoleProcess("gateway", tmp_path / "alone", **env)
        stack.callback(alone.close)
        assert shared.api.post("/api/v1/media", {"any": "bytes"})["sizeBytes"] == 16
        assert len(list((system.data / "media").iterdir())) == 1
        with pytest.raises(Refused) as refused:
            alone.api.post("/api/v1/media", {"any": "bytes"})
        assert (refused.value.status, refused.value.code) == (503, "NO_MEDIA_FOLDER")
        assert alone.api.get("/health")["status"] == "ok"
        with pytest.raises(Refused) as refused:  # the control plane's side is not here
            alone.api.get("/api/sessions")
        assert refused.value.status == 404
        with pytest.raises(Refused) as refused:
            Http(alone.api.base).get("/api/v1/messages")
        assert refused.value.status == 401


# in this process --------------------------------------------------------------------------------------------------
@pytest.fixture
def own_store(tmp_path: Path) -> Iterator[StoreServer]:
    with running_server("valkey", tmp_path / "store") as server:
        yield server


async def test_gateway_answers_503_while_the_store_is_away_and_goes_on_afterwards(
    own_store: StoreServer, tmp_path: Path
) -> None:
    environ = {"REDIS_URL": own_store.url, "API_KEY": KEY, "ORCH_PORT": "0", "DATA_DIR": str(tmp_path / "none")}
    own_store.kill()
    async with running_gateway(load_settings(environ)) as gateway, aiohttp.ClientSession() as http:
        assert not gateway.store_answers

        async def status() -> int:
            body = {"to": "972541234567", "message": "x"}
            async with http.post(f"{gateway.url}/api/v1/send", json=body, headers={"X-Api-Key": KEY}) as answer:
                return answer.status

        async def ready() -> int:
            async with http.get(f"{gateway.url}/ready") as answer:
                return answer.status

        for _ in range(2):
            assert [await status(), await ready()] == [503, 503]
            own_store.start()
            assert [await status(), await ready()] == [202, 200]
            own_store.kill()
        own_store.start()


async def test_dispatcher_keeps_trying_while_the_store_is_away(own_store: StoreServer, tmp_path: Path) -> None:
    environ = {"REDIS_URL": own_store.url, "API_KEY": KEY, "ORCH_PORT": "0", "DATA_DIR": str(tmp_path / "none")}
    own_store.kill()
    async with running_dispatcher(load_settings(environ)) as dispatcher:
        assert not dispatcher.store_answers
        own_store.start()
        async with running_gateway(load_settings(environ)) as gateway, aiohttp.ClientSession() as http:
            body = {"to": "972541234567", "message": "x"}

            async def looked_at() -> bool:
                """The router has found that nobody can send it."""
                async with http.get(f"{gateway.url}/api/v1/messages/{made}", headers={"X-Api-Key": KEY}) as answer:
                    return bool((await answer.json())["waitingFor"]["code"] == "NO_SESSION_CONNECTED")

            async with http.post(f"{gateway.url}/api/v1/send", json=body, headers={"X-Api-Key": KEY}) as answer:
                made = (await answer.json())["messageId"]
            await wait_until(looked_at, timeout_s=10)


async def test_gateways_share_one_rate_limit(own_store: StoreServer, tmp_path: Path) -> None:
    environ = {"REDIS_URL": own_store.url, "API_KEY": KEY, "ORCH_PORT": "0", "DATA_DIR": str(tmp_path / "none"),
               "RATE_LIMIT_PER_SECOND": "1", "RATE_LIMIT_BURST": "4"}  # fmt: skip
    settings = load_settings(environ)
    async with running_gateway(settings) as one, running_gateway(settings) as other, aiohttp.ClientSession() as http:
        assert one.url != other.url
        statuses: Counter[int] = Counter()
        for url in [one.url, other.url] * 5:
            body = {"to": "972541234567", "message": "x"}
            async with http.post(f"{url}/api/v1/send", json=body, headers={"X-Api-Key": KEY}) as answer:
                statuses[answer.status] += 1
        assert statuses[202] in {4, 5}
        assert statuses[202] + statuses[429] == 10


async def test_openapi_of_a_gateway_shows_what_it_serves(valkey_store: Store, valkey: StoreServer) -> None:
    settings = load_settings({"REDIS_URL": valkey.url, "API_KEY": KEY, "ORCH_PORT": "0", "DATA_DIR": "/nonexistent"})
    async with running_gateway(settings) as gateway, aiohttp.ClientSession() as http:
        async with http.get(f"{gateway.url}/openapi.json", headers={"X-Api-Key": KEY}) as answer:
            paths = (await answer.json())["paths"]
        assert {"/api/v1/send", "/api/v1/send/bulk", "/api/v1/messages", "/health"} <= set(paths)
        assert not [path for path in paths if "sessions" in path or "worker" in path or "proxies" in path]


# what is missing is said ------------------------------------------------------------------------------------------
def test_roles_are_read_and_wrong_ones_explained() -> None:
    assert read_roles("orchestrator, gateway,dispatcher") == ALL_ROLES
    assert read_roles("Orchestrator") == {"orchestrator"}
    with pytest.raises(SettingsError, match="There is no role boss; the roles are orchestrator, gateway, dispatcher"):
        read_roles("orchestrator,boss")
    with pytest.raises(SettingsError, match="`up` always runs the orchestrator"):
        read_roles("gateway")


@pytest.mark.parametrize(
    ("words", "env", "sentence"),
    [
        (["gateway"], {"API_KEY": KEY}, "No store is named, and "),
        (["dispatcher"], {}, "No store is named, and "),
        (["dispatcher", "--data-dir", "elsewhere"], {}, "No store is named, and "),
        (["gateway"], {"REDIS_URL": "redis://127.0.0.1:1"}, "A gateway needs the API key of its installation."),
        (["dispatcher"], {"REDIS_URL": "http://x"}, "REDIS_URL must look like redis://"),
        (["up", "--roles", "gateway"], {}, "`up` always runs the orchestrator."),
    ],
)
def test_what_is_missing_is_one_sentence(tmp_path: Path, words: list[str], env: dict[str, str], sentence: str) -> None:
    done = subprocess.run([str(PROGRAM), *words], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=30,
                          env={"PATH": os.environ["PATH"], **env})  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(sentence), done.stderr
    assert done.stderr.count("\n") == 1
