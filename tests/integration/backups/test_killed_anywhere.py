"""kill -9 at every step of a backup, a restore, an export: the next start finds all as before, or finishes it.

A forked child does the work and ends itself, without any clean-up, at its n-th change of disk or store; then a new
process recovers. For every n, until the child gets through.
"""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from support.backups import tree, write_auth, write_ledger
from support.control_plane import quick_settings
from support.registry import add_proxies, assert_sound, connect, reserve
from support.servers import StoreServer
from wa_orchestrator.backups import archive, library, session_files, swapping
from wa_orchestrator.backups.auth_files import read_auth
from wa_orchestrator.backups.room import BackupRoom
from wa_orchestrator.clock import SystemClock
from wa_orchestrator.runners.process import ProcessRunner
from wa_orchestrator.sessions.lifecycle import Lifecycle
from wa_orchestrator.store import Store, scripts

PHONES = {"worker_1": "972500000001", "worker_2": "972500000002", "worker_3": "972500000003"}
KILLED, DONE = 9, 0


class World:
    """One data folder and one store; each process opens it anew."""

    def __init__(self, data: Path, url: str) -> None:
        self.data = data
        self.url = url
        self.settings = quick_settings(data)

    async def opened(self, work: Callable[[BackupRoom, Store], Awaitable[Any]]) -> Any:
        clock = SystemClock()
        store = Store(self.url, clock)
        runner = ProcessRunner(
            sessions_path=self.settings.sessions_path, run_path=self.settings.run_path,
            logs_path=self.data / "logs", command=("sleep", "600"), base_env={}, log_bytes=1 << 20,
        )  # fmt: skip
        await runner.open()
        lifecycle = Lifecycle(
            store=store, runner=runner, settings=self.settings, clock=clock, webhook_url="http://x", maker="server"
        )
        # what a killed process of this server held is free again, as at every start
        await store.locks.release_left_by("server")
        try:
            return await work(BackupRoom(store=store, lifecycle=lifecycle, settings=self.settings, clock=clock), store)
        finally:
            await runner.close(stop_workers=True)
            await store.close()

    def run(self, work: Callable[[BackupRoom, Store], Awaitable[Any]]) -> Any:
        return asyncio.run(self.opened(work))

    def folder(self, session_id: str) -> Path:
        return self.settings.sessions_path / session_id

    def generations(self) -> dict[str, int]:
        return {i: auth.generation for i in PHONES if (auth := read_auth(self.folder(i)))}


class KillAt:
    """Ends the process at the n-th change of disk or store."""

    def __init__(self, number: int) -> None:
        self.left = number

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            os._exit(KILLED)

    def install(self) -> None:
        """Before and after each change: the change happened, or it did not."""
        for owner, name in (
            (Path, "rename"), (Path, "unlink"), (Path, "mkdir"), (os, "link"), (shutil, "rmtree"), (shutil, "copyfile"),
        ):  # fmt: skip
            setattr(owner, name, self._around(getattr(owner, name)))
        run = scripts.run

        async def counted(connection: Any, script: str, arguments: dict[str, Any]) -> dict[str, Any]:
            if script in {"restore_session", "restore_part", "delete_session", "mark_moved", "end_operation"}:
                self()
                answer = await run(connection, script, arguments)
                self()
                return answer
            return await run(connection, script, arguments)

        setattr(scripts, "run", counted)  # noqa: B010 - the kill point of every script

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*args: Any, **more: Any) -> Any:
            self()
            result = real(*args, **more)
            self()
            return result

        return call


def in_a_child_killed_at(number: int, world: World, work: Callable[[BackupRoom, Store], Awaitable[Any]]) -> int:
    """Its exit code: KILLED, or DONE when it got through."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            KillAt(number).install()
            world.run(work)
        except BaseException:
            os._exit(1)
        os._exit(DONE)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.fixture
def world(valkey: StoreServer) -> Iterator[World]:
    with redis.Redis(port=valkey.port) as client:
        client.flushall()
    # hundreds of steps are synced to the disk: in memory that costs nothing, and a kill is no power cut
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield filled(World(Path(folder) / "data", valkey.url))


def filled(made: World) -> World:

    async def fill(_: BackupRoom, store: Store) -> None:
        await add_proxies(store, 1)
        for session_id, phone in PHONES.items():
            reserved = await reserve(store)
            assert reserved.session_id == session_id
            await store.sessions.confirm(session_id)
            await connect(store, session_id, phone)
            write_auth(made.folder(session_id), phone, generation=5)
            write_ledger(made.folder(session_id), generation=5, text=session_id)

    made.run(fill)
    return made


async def do(room: BackupRoom) -> None:
    """Takes up and does what was ordered; an order in the store is all that is needed."""
    assert await room.run_once()


async def recover(room: BackupRoom, _: Store) -> None:
    await room.recover()


async def make_backup(room: BackupRoom, store: Store) -> None:
    await store.operations.order("backup", {})
    await do(room)


def forget_operation(world: World) -> None:
    async def forget(_: BackupRoom, store: Store) -> None:
        await store.connection.call("DEL", "backups:operation")

    world.run(forget)


def test_a_backup_killed_anywhere_is_whole_or_not_there(world: World) -> None:
    before = {i: tree(world.folder(i)) for i in PHONES}
    number, outcomes = 0, set()
    while True:
        number += 1
        code = in_a_child_killed_at(number, world, make_backup)
        assert code in {KILLED, DONE}, f"the child failed at {number}"
        listed = world.run(lambda room, _: _list(room))
        outcomes.add(len(listed))
        world.run(recover)
        assert {i: tree(world.folder(i)) for i in PHONES} == before
        for backup in listed:
            assert world.run(functools.partial(_verified, backup=backup))["sessions"] == 3
            (world.settings.backups_path / f"{backup}.zip").unlink()
        assert not world.settings.backups_path.exists() or list(world.settings.backups_path.iterdir()) == []
        forget_operation(world)
        if code == DONE:
            break
    assert outcomes == {0, 1}


async def _verified(room: BackupRoom, _: Store, *, backup: str) -> dict[str, Any]:
    return await room.verify(backup)


async def _list(room: BackupRoom) -> list[str]:
    return [backup.backup_id for backup in room.library.all()]


@pytest.mark.parametrize("emptied", [False, True], ids=["over live sessions", "into an empty store"])
def test_a_restore_killed_anywhere_is_as_before_or_finished(world: World, emptied: bool) -> None:
    world.run(make_backup)
    (backup,) = world.run(lambda room, _: _list(room))
    saved = {i: tree(world.folder(i)) for i in PHONES}

    async def live_on(_: BackupRoom, store: Store) -> None:
        """What is there when the restore begins: newer keys, or nothing at all."""
        shutil.rmtree(world.settings.sessions_path, ignore_errors=True)
        await store.connection.call("FLUSHALL")
        if emptied:
            return
        await add_proxies(store, 1)
        for session_id, phone in list(PHONES.items())[:2]:
            reserved = await reserve(store)
            await store.sessions.confirm(reserved.session_id)
            await connect(store, session_id, phone)
            write_auth(world.folder(session_id), phone, generation=9)

    async def restore(room: BackupRoom, store: Store) -> None:
        arguments = {"backupId": backup, "sessions": [], "force": True, "mode": "backup", "proxy": ""}
        await store.operations.order("restore", arguments)
        await do(room)

    before: dict[str, int] = {} if emptied else {"worker_1": 9, "worker_2": 9}
    after = dict.fromkeys(PHONES, 5)
    number, outcomes = 0, []
    while True:
        number += 3 if emptied else 1  # before and after a change in turn
        world.run(live_on)
        code = in_a_child_killed_at(number, world, restore)
        assert code in {KILLED, DONE}, f"the child failed at {number}"
        world.run(recover)
        found = world.generations()
        assert found in (before, after), f"a mixture after a kill at {number}: {found}"
        outcomes.append(found == after)
        world.run(functools.partial(_check_store, found=found))
        if found == after:
            for session_id in PHONES:
                assert tree(world.folder(session_id)) == saved[session_id]
        assert not (world.settings.sessions_path / ".restore").exists()
        if code == DONE:
            break
    assert outcomes == sorted(outcomes)  # as before at first, finished from a certain step on
    assert set(outcomes) == {False, True}


async def _check_store(_: BackupRoom, store: Store, *, found: dict[str, int]) -> None:
    """The store tells the same as the folders."""
    sessions = {s.session_id: s.phone for s in await store.sessions.all()}
    assert sessions == {session_id: PHONES[session_id] for session_id in found}
    for session in await store.sessions.all():
        assert session.wanted == "running"
        assert session.proxy_id
        assert await store.sessions.bound_proxy(session.phone) == session.proxy_id
    operation = await store.operations.get()
    assert operation is None or operation.ended or operation.state == "ordered"
    await assert_sound(store)


def test_an_undoing_restore_killed_anywhere_is_as_before(world: World) -> None:
    """The third session's phone is taken, so that the restore fails and is undone; killed while it is undone."""
    world.run(make_backup)
    (backup,) = world.run(lambda room, _: _list(room))

    async def live_on(_: BackupRoom, store: Store) -> None:
        shutil.rmtree(world.settings.sessions_path, ignore_errors=True)
        await store.connection.call("FLUSHALL")
        first, second = await add_proxies(store, 2)
        for session_id, phone in list(PHONES.items())[:2]:
            await reserve(store, session_id=session_id, proxy_id=first)
            await store.sessions.confirm(session_id)
            await connect(store, session_id, phone)
            write_auth(world.folder(session_id), phone, generation=9)
        for n in range(4):
            await reserve(
                store, session_id=f"other_{n}", phone=PHONES["worker_3"], proxy_id=second, allow_additional=True
            )
            await store.sessions.confirm(f"other_{n}")

    async def restore(room: BackupRoom, store: Store) -> None:
        arguments = {"backupId": backup, "sessions": [], "force": True, "mode": "backup", "proxy": ""}
        await store.operations.order("restore", arguments)
        await do(room)

    async def check(_: BackupRoom, store: Store) -> None:
        assert {s.session_id for s in await store.sessions.all()} == {
            "worker_1", "worker_2", *(f"other_{n}" for n in range(4)),
        }  # fmt: skip
        await assert_sound(store)

    number = 0
    while True:
        number += 3  # before and after a change in turn
        world.run(live_on)
        code = in_a_child_killed_at(number, world, restore)
        assert code in {KILLED, DONE}
        world.run(recover)
        assert world.generations() == {"worker_1": 9, "worker_2": 9}, f"after a kill at {number}"
        world.run(check)
        assert not (world.settings.sessions_path / ".restore").exists()
        if code == DONE:
            break


def test_an_export_killed_anywhere_is_never_in_two_places(world: World) -> None:
    """Either there is no file to carry away, or the session does not start here any more."""

    async def export(room: BackupRoom, store: Store) -> None:
        await store.operations.order("export", {"sessionId": "worker_1"})
        await do(room)

    async def movable(_: BackupRoom, store: Store) -> bool:
        session = await store.sessions.get("worker_1")
        assert session
        return session.wanted == "running"

    number, seen = 0, set()
    while True:
        number += 1
        code = in_a_child_killed_at(number, world, export)
        assert code in {KILLED, DONE}
        runs_here = world.run(movable)
        listed = world.run(lambda room, _: _list(room))
        assert not (runs_here and listed), f"after a kill at {number}"
        seen.add((runs_here, bool(listed)))
        world.run(recover)
        assert read_auth(world.folder("worker_1"))  # whatever happened, nothing is lost
        forget_operation(world)
        if code == DONE:
            break
        if not runs_here:
            break  # it has moved: exporting it again is another story
    assert (True, False) in seen


def test_the_steps_of_these_tests_are_the_real_ones() -> None:
    """The kill points are set on these functions; should they be imported by name, the kills would miss them."""
    for module in (session_files, swapping, library, archive):
        for name in ("shutil", "os"):
            assert getattr(module, name, sys.modules[name]) is sys.modules[name]
        assert getattr(module, "Path") is Path  # noqa: B009 - not exported on purpose
        for name in ("copyfile", "rmtree", "link", "fsync", "rename"):
            assert not hasattr(module, name), f"{module.__name__} has its own {name}"
