"""Backups of a running control plane with tiny workers."""

from __future__ import annotations

import asyncio
import time
import zipfile
from pathlib import Path

import pytest
import redis

from support.backups import backed_up, ended, journal_types, linked, wait_status, write_auth
from support.control_plane import TINY_WORKER, ControlPlane, control_plane
from support.servers import StoreServer
from support.waiting import wait_until
from wa_orchestrator.backups import library
from wa_orchestrator.processes.filelock import try_lock


@pytest.fixture
def empty(valkey: StoreServer) -> str:
    """Where an empty store is."""
    with redis.Redis(port=valkey.port) as client:
        client.flushall()
    return valkey.url


async def test_each_session_is_paused_only_for_its_own_copy_and_it_is_no_restart(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    running = [await linked(tiny_plane, f"97250000000{n}") for n in range(3)]
    stopped = await linked(tiny_plane, "972500000009")
    await tiny_plane.good("POST", f"/api/sessions/{stopped}/stop")
    pids = {i: await tiny_plane.pid(i) for i in running}
    started = await tiny_plane.good("POST", "/api/v1/backups/create", status=202)
    assert started["kind"] == "backup"
    done = await ended(tiny_plane)
    assert (done["state"], done["done"], done["total"]) == ("done", 4, 4)
    result = done["result"]
    assert set(result["pausedMs"]) == set(running)
    assert max(result["pausedMs"].values()) == result["longestPauseMs"] < 5000
    for session_id in running:
        await wait_status(tiny_plane, session_id, "connected")
        session = await tiny_plane.good("GET", f"/api/sessions/{session_id}")
        assert (session["restarts"], session["wanted"]) == (0, "running")
        assert await tiny_plane.pid(session_id) not in {None, pids[session_id]}
        story = await tiny_plane.store.journal.timeline(session_id, limit=20)
        reasons = {entry.data.get("reason") for entry in story if entry.type == "session.status"}
        assert "BACKUP" in reasons
        assert not reasons & {"WORKER_DIED", "CRASH_LOOP"}
    assert await tiny_plane.status(stopped) == "stopped"
    assert await tiny_plane.pid(stopped) is None
    created = [e for e in await tiny_plane.store.journal.after(0, limit=1000) if e.type == "backup.created"]
    assert len(created) == 1
    assert created[0].data["sessions"] == 4
    assert created[0].data["backup"] == result["backupId"]


async def test_a_backup_holds_the_files_and_what_the_store_knows(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001", generation=42)
    backup_id = await backed_up(tiny_plane)
    file = tiny_plane.server.settings.backups_path / f"{backup_id}.zip"
    assert file.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(file) as archive:
        assert f"sessions/{session_id}/auth/journal" in archive.namelist()
        assert f"sessions/{session_id}/outbox/journal" in archive.namelist()
        assert not [name for name in archive.namelist() if "/events/" in name or name.endswith(".lock")]
    listed = (await tiny_plane.good("GET", "/api/v1/backups"))["backups"]
    assert [(b["id"], b["sessions"], b["encrypted"]) for b in listed] == [(backup_id, 1, False)]
    shown = await tiny_plane.good("GET", f"/api/v1/backups/{backup_id}")
    assert shown["sessionIds"] == [session_id]
    verified = await tiny_plane.good("POST", f"/api/v1/backups/{backup_id}/verify")
    assert (verified["ok"], verified["sessions"]) == (True, 1)
    got = await tiny_plane.call("GET", f"/api/v1/backups/{backup_id}/download")
    assert got.body == file.read_bytes()


async def test_the_eighth_removes_the_oldest_and_two_of_one_day_differ(tiny_plane: ControlPlane) -> None:
    made = [await backed_up(tiny_plane) for _ in range(8)]
    assert len(set(made)) == 8
    listed = [b["id"] for b in (await tiny_plane.good("GET", "/api/v1/backups"))["backups"]]
    assert sorted(listed) == sorted(made[1:])


async def test_only_one_operation_at_a_time(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    await linked(tiny_plane, "972500000001")
    answers = await asyncio.gather(*(tiny_plane.call("POST", "/api/v1/backups/create") for _ in range(4)))
    assert sorted({a.status for a in answers}) in ([202, 409], [202])
    assert {a.code for a in answers if a.status == 409} <= {"BACKUP_BUSY"}
    await ended(tiny_plane)


async def test_without_space_nothing_is_begun(tiny_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    pid = await tiny_plane.pid(session_id)
    monkeypatch.setattr(library, "_SPARE_BYTES", 1 << 60)
    refused = await tiny_plane.call("POST", "/api/v1/backups/create")
    assert (refused.status, refused.code) == (503, "NO_SPACE")
    assert await tiny_plane.pid(session_id) == pid
    assert (await tiny_plane.good("GET", "/api/v1/backups"))["total"] == 0
    assert "backup.failed" in await journal_types(tiny_plane)


async def test_a_session_whose_folder_somebody_else_uses_is_left_out_and_named(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id, other = await linked(tiny_plane, "972500000001"), await linked(tiny_plane, "972500000002")
    await tiny_plane.good("POST", f"/api/sessions/{session_id}/stop")
    with try_lock(tiny_plane.folder(session_id) / ".lock") as lock:
        assert lock is not None
        await backed_up(tiny_plane)
    result = (await ended(tiny_plane))["result"]
    assert (result["skippedSessions"], result["sessions"]) == ([session_id], 1)
    await wait_status(tiny_plane, other, "connected")


async def test_a_stop_ordered_during_the_pause_counts(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    lifecycle = tiny_plane.server.rooms.lifecycle
    async with lifecycle.held(session_id, reason="BACKUP", resume=True):
        assert await tiny_plane.pid(session_id) is None
        ordered = asyncio.create_task(tiny_plane.good("POST", f"/api/sessions/{session_id}/stop"))

        async def is_wanted() -> bool:
            session = await tiny_plane.store.sessions.get(session_id)
            return bool(session.wanted == "stopped")

        await wait_until(is_wanted)
    await ordered
    assert await tiny_plane.pid(session_id) is None
    assert await tiny_plane.status(session_id) == "stopped"


async def test_a_held_session_is_not_restarted_by_anybody(tiny_plane: ControlPlane) -> None:
    """The reconciler goes round five times a second here."""
    await tiny_plane.add_proxies(1)
    session_id, other = await linked(tiny_plane, "972500000001"), await linked(tiny_plane, "972500000002")
    async with tiny_plane.server.rooms.lifecycle.held(session_id, reason="BACKUP", resume=False):
        # others are served meanwhile: a crash elsewhere is repaired although this one is held
        (tiny_plane.folder(other) / "crash").touch()
        before = await tiny_plane.pid(other)

        async def is_new() -> bool:
            return await tiny_plane.pid(other) not in {None, before}

        await wait_until(is_new, timeout_s=10)
        assert await tiny_plane.pid(session_id) is None
    await wait_status(tiny_plane, session_id, "connected")


async def test_unfinished_files_are_never_listed_and_gone_after_a_start(empty: str, tmp_path: Path) -> None:
    backups = tmp_path / "data" / "backups"
    backups.mkdir(parents=True)
    (backups / ".unfinished-op_1.zip").write_bytes(b"half")
    (backups / ".unfinished-op_1.copy").mkdir()
    (backups / ".uploading-new").write_bytes(b"half")
    (backups / "mine.zip").write_bytes(b"not a zip")
    async with control_plane(tmp_path / "data", REDIS_URL=empty, WORKER_COMMAND=TINY_WORKER) as plane:
        listed = (await plane.good("GET", "/api/v1/backups"))["backups"]
        assert [(b["id"], b["problem"]) for b in listed] == [("mine", "BACKUP_DAMAGED")]
        # an upload may be another orchestrator's and still under way
        assert sorted(f.name for f in backups.iterdir()) == [".uploading-new", "mine.zip"]


async def test_an_encrypted_backup_shows_nothing_and_comes_back(empty: str, tmp_path: Path) -> None:
    settings = {"REDIS_URL": empty, "WORKER_COMMAND": TINY_WORKER}
    async with control_plane(tmp_path / "data", **settings, BACKUP_PASSPHRASE="correct horse") as plane:
        (proxy,) = await plane.add_proxies(1)
        session_id = await linked(plane, "972500000001")
        backup_id = await backed_up(plane)
        file = plane.server.settings.backups_path / f"{backup_id}.zip.enc"
        content = file.read_bytes()
        assert session_id.encode() not in content
        assert b"972500000001" not in content
        assert (await plane.good("POST", f"/api/v1/backups/{backup_id}/verify"))["ok"]
        wrong = await plane.call("POST", f"/api/v1/backups/{backup_id}/verify", {"passphrase": "wrong"})
        assert (wrong.status, wrong.code) == (422, "BACKUP_WRONG_PASSPHRASE")
        await plane.good("DELETE", f"/api/sessions/{session_id}")
    async with control_plane(tmp_path / "data", **settings) as plane:
        refused = await plane.call("POST", f"/api/v1/backups/restore/{backup_id}")
        assert (refused.status, refused.code) == (422, "BACKUP_NEEDS_PASSPHRASE")
        refused = await plane.call("POST", f"/api/v1/backups/restore/{backup_id}", {"passphrase": "wrong"})
        assert (refused.status, refused.code) == (422, "BACKUP_WRONG_PASSPHRASE")
        body = {"passphrase": "correct horse"}
        await plane.good("POST", f"/api/v1/backups/restore/{backup_id}", body, status=202)
        assert (await ended(plane))["state"] == "done"
        await wait_status(plane, session_id, "connected")
        assert (await plane.good("GET", f"/api/sessions/{session_id}"))["proxy"]["id"] == proxy
        # the passphrase was never written anywhere in the store
        keys = [key async for key in plane.store.connection.client.scan_iter("*")]
        dumped = [await plane.store.connection.client.dump(key) for key in keys if "operation" in key]
        assert not [value for value in dumped if "correct horse" in str(value)]


async def test_the_daily_backup_is_made_when_it_is_due(empty: str, tmp_path: Path) -> None:
    settings = {"REDIS_URL": empty, "WORKER_COMMAND": TINY_WORKER, "TIMEZONE": "UTC"}
    async with control_plane(tmp_path / "data", **settings, BACKUP_AT="03:00") as plane:

        async def is_planned() -> bool:
            return "nextDue" in await plane.store.jobs.get("backup")

        await wait_until(is_planned)
        # the server was off at its time: it is caught up
        await plane.store.connection.call("HSET", "job:backup", "nextDue", int(time.time() * 1000) - 3 * 86_400_000)

        async def is_made() -> bool:
            job = await plane.store.jobs.get("backup")
            return "lastEndedAt" in job and job["lastError"] == ""

        await wait_until(is_made, timeout_s=20)
        assert (await plane.good("GET", "/api/v1/backups"))["total"] == 1
        job = await plane.store.jobs.get("backup")
        assert int(job["nextDue"]) % 86_400_000 == 3 * 3_600_000
        assert int(job["nextDue"]) > time.time() * 1000


async def test_bad_requests_have_their_codes(tiny_plane: ControlPlane) -> None:
    for method, path in (
        ("GET", "/api/v1/backups/nothing"),
        ("GET", "/api/v1/backups/..%2F..%2Fsecrets"),
        ("GET", "/api/v1/backups/nothing/download"),
        ("POST", "/api/v1/backups/nothing/verify"),
        ("POST", "/api/v1/backups/restore/nothing"),
        ("DELETE", "/api/v1/backups/nothing"),
    ):
        answer = await tiny_plane.call(method, path)
        assert answer.status == 404, path
        assert answer.code in {"BACKUP_NOT_FOUND", "NOT_FOUND"}
    body = {"sessions": ["../x"]}
    assert (await tiny_plane.call("POST", "/api/v1/backups/restore/x", body)).code == "INVALID_SESSION_ID"
    assert (await tiny_plane.call("POST", "/api/v1/backups/restore/x", {"all": True})).code == "INVALID_BODY"
    assert (await tiny_plane.call("POST", "/api/v1/sessions/none/export")).code == "SESSION_NOT_FOUND"
    uploaded = await tiny_plane.call("POST", "/api/v1/backups/upload", raw=b"not a zip")
    assert (uploaded.status, uploaded.code) == (422, "BACKUP_DAMAGED")
    assert not list(tiny_plane.server.settings.backups_path.iterdir())
    assert (await tiny_plane.call("GET", "/api/v1/backups", key=None)).status == 401


async def test_an_uploaded_backup_is_listed_and_can_be_restored(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    backup_id = await backed_up(tiny_plane)
    content = (await tiny_plane.call("GET", f"/api/v1/backups/{backup_id}/download")).body
    await tiny_plane.good("DELETE", f"/api/v1/backups/{backup_id}")
    await tiny_plane.good("DELETE", f"/api/sessions/{session_id}")
    answer = await tiny_plane.call("POST", "/api/v1/backups/upload", raw=content)
    assert answer.status == 201
    await tiny_plane.good("POST", f"/api/v1/backups/restore/{answer.json['id']}", status=202)
    assert (await ended(tiny_plane))["state"] == "done"
    await wait_status(tiny_plane, session_id, "connected")


async def test_a_backup_survives_a_session_that_ends_meanwhile(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(2)
    ids = [await linked(tiny_plane, f"97250000000{n}") for n in range(5)]
    write_auth(tiny_plane.folder(ids[0]), "972500000000", generation=6)
    await tiny_plane.good("POST", "/api/v1/backups/create", status=202)
    await asyncio.gather(*(tiny_plane.good("DELETE", f"/api/sessions/{i}") for i in ids[3:]))
    done = await ended(tiny_plane)
    assert done["state"] == "done", done
    for session_id in ids[:3]:
        await wait_status(tiny_plane, session_id, "connected")
