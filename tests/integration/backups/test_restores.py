"""Restores on a running control plane: what comes back, what is refused, and that a failure changes nothing."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from support.backups import (
    backed_up,
    creds,
    ended,
    journal_types,
    linked,
    restored,
    tree,
    wait_settled,
    wait_status,
    write_auth,
    write_ledger,
)
from support.control_plane import ControlPlane, proxy_url
from support.registry import assert_sound
from wa_orchestrator.backups.auth_files import read_auth, read_journal
from wa_orchestrator.errors import StoreUnavailable
from wa_orchestrator.store.carrying import CarryingStore, Placed


async def everything_gone(plane: ControlPlane, ids: list[str]) -> None:
    for session_id in ids:
        await plane.good("DELETE", f"/api/sessions/{session_id}?forget=true")
    await plane.store.connection.call("FLUSHALL")
    # the leader's lease was in the store, too; it is taken again within two seconds


async def test_after_a_disaster_all_sessions_are_as_before(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(2)
    ids = [await linked(tiny_plane, f"97250000000{n}", label=f"shop {n}") for n in range(5)]
    await tiny_plane.good("PUT", f"/api/anti-ban/sessions/{ids[0]}/limits", {"daily": 3})
    before = {i: await tiny_plane.good("GET", f"/api/sessions/{i}") for i in ids}
    files = {i: tree(tiny_plane.folder(i)) for i in ids}
    backup_id = await backed_up(tiny_plane)
    for session_id in ids:
        await wait_status(tiny_plane, session_id, "connected")
    await everything_gone(tiny_plane, ids)
    done = await restored(tiny_plane, backup_id)
    assert sorted(done["result"]["sessions"]) == sorted(ids)
    assert done["result"]["withoutSlot"] == []
    for session_id in ids:
        await wait_status(tiny_plane, session_id, "connected")
        after = await tiny_plane.good("GET", f"/api/sessions/{session_id}")
        for name in ("phone", "proxy", "label", "createdAt", "trust", "restarts"):
            assert after[name] == before[session_id][name], name
        for name in ("auth/journal", "outbox/journal"):
            assert tree(tiny_plane.folder(session_id))[name] == files[session_id][name]
    limits = await tiny_plane.good("GET", f"/api/anti-ban/sessions/{ids[0]}/limits")
    assert limits["override"]["daily"] == 3
    assert "restore.done" in await journal_types(tiny_plane)
    await assert_sound(tiny_plane.store)


async def test_chosen_sessions_only(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    first, second = await linked(tiny_plane, "972500000001"), await linked(tiny_plane, "972500000002")
    backup_id = await backed_up(tiny_plane)
    await wait_status(tiny_plane, second, "connected")
    pid = await tiny_plane.pid(second)
    await tiny_plane.good("DELETE", f"/api/sessions/{first}")
    await restored(tiny_plane, backup_id, sessions=[first])
    await wait_status(tiny_plane, first, "connected")
    assert await tiny_plane.pid(second) == pid  # not touched
    missing = await tiny_plane.call("POST", f"/api/v1/backups/restore/{backup_id}", {"sessions": ["other"]})
    assert (missing.status, missing.code) == (404, "SESSION_NOT_IN_BACKUP")


async def test_newer_keys_are_only_replaced_by_force(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    older, same, rescanned = [await linked(tiny_plane, f"97250000000{n}") for n in range(3)]
    backup_id = await backed_up(tiny_plane)
    write_auth(tiny_plane.folder(older), "972500000000", generation=6)
    write_auth(tiny_plane.folder(rescanned), "972500000002", generation=2, device=2)
    pid = await tiny_plane.pid(older)
    refused = await tiny_plane.call("POST", f"/api/v1/backups/restore/{backup_id}")
    assert (refused.status, refused.code) == (409, "BACKUP_OLDER")
    assert refused.json["error"]["details"]["sessions"] == sorted([older, rescanned])
    assert await tiny_plane.pid(older) == pid
    await restored(tiny_plane, backup_id, sessions=[same])
    await restored(tiny_plane, backup_id, force=True)
    found = read_auth(tiny_plane.folder(older))
    assert found
    assert found.generation == 5
    await wait_status(tiny_plane, older, "connected")


async def test_what_was_there_is_set_aside(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    backup_id = await backed_up(tiny_plane)
    (tiny_plane.folder(session_id) / "note").write_text("later")
    await restored(tiny_plane, backup_id)
    assert not (tiny_plane.folder(session_id) / "note").exists()
    aside = list((tiny_plane.server.settings.sessions_path / ".aside").glob(f"{session_id}.*"))
    assert [(a / "note").read_text() for a in aside] == ["later"]
    assert not (tiny_plane.server.settings.sessions_path / ".restore").exists()


async def test_the_newer_ledger_is_kept_so_that_nothing_is_sent_twice(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    backup_id = await backed_up(tiny_plane)
    write_ledger(tiny_plane.folder(session_id), generation=9, text="sent since the backup")
    await restored(tiny_plane, backup_id)
    ledger = read_journal(tiny_plane.folder(session_id) / "outbox" / "journal")
    assert ledger
    assert ledger.generation == 9


async def test_without_a_manifest_sessions_are_rebuilt_from_their_files(
    tiny_plane: ControlPlane, tmp_path: Path
) -> None:
    await tiny_plane.add_proxies(1)
    write_auth(tmp_path / "a", "972500000001", generation=4)
    file = tiny_plane.server.settings.backups_path / "old.zip"
    file.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(tmp_path / "a" / "auth" / "journal", "sessions/shop/auth/journal")
        archive.writestr("sessions/shop/connect-as", "972500000001")
        archive.writestr("sessions/multi/creds.json", creds("972500000002"))
        archive.writestr("sessions/multi/connect-as", "972500000002")
    await restored(tiny_plane, "old")
    for session_id, phone in (("shop", "972500000001"), ("multi", "972500000002")):
        await wait_status(tiny_plane, session_id, "connected")
        session = await tiny_plane.good("GET", f"/api/sessions/{session_id}")
        assert (session["phone"], session["proxy"]["host"]) == (phone, "127.0.0.1")
    trust = (await tiny_plane.good("GET", "/api/sessions/shop"))["trust"]
    assert trust["since"].startswith("2023-11-14")  # when the auth files say it was first linked
    await assert_sound(tiny_plane.store)


async def test_without_a_free_slot_it_is_restored_but_stopped(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    ids = [await linked(tiny_plane, f"97250000000{n}") for n in range(2)]
    backup_id = await backed_up(tiny_plane)
    for session_id in ids:
        await tiny_plane.good("DELETE", f"/api/sessions/{session_id}?forget=true")
    for n in range(3):
        await tiny_plane.provision(sessionId=f"new_{n}")
    done = await restored(tiny_plane, backup_id)
    (without,) = done["result"]["withoutSlot"]
    session = await tiny_plane.good("GET", f"/api/sessions/{without}")
    assert (session["status"], session["reason"]) == ("stopped", "NO_PROXY_AVAILABLE")
    await assert_sound(tiny_plane.store)
    await tiny_plane.good("DELETE", "/api/sessions/new_0")
    await tiny_plane.good("POST", f"/api/sessions/{without}/start")
    await wait_status(tiny_plane, without, "connected")


async def test_a_manipulated_backup_changes_nothing(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    backup_id = await backed_up(tiny_plane)
    await wait_settled(tiny_plane, session_id)
    folder = tiny_plane.server.settings.backups_path
    good = (folder / f"{backup_id}.zip").read_bytes()
    with zipfile.ZipFile(folder / f"{backup_id}.zip") as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(folder / "escape.zip", "w") as archive:
        for name, data in {**content, "sessions/../../evil": b"x"}.items():
            archive.writestr(name, data)
    (folder / "cut.zip").write_bytes(good[: len(good) // 2])
    pid, before = await tiny_plane.pid(session_id), tree(tiny_plane.folder(session_id))
    number = await tiny_plane.store.journal.last_number()
    for backup, code in (("escape", "BACKUP_UNSAFE"), ("cut", "BACKUP_DAMAGED")):
        refused = await tiny_plane.call("POST", f"/api/v1/backups/restore/{backup}", {"force": True})
        assert (refused.status, refused.code) == (422, code)
    assert await tiny_plane.pid(session_id) == pid
    assert tree(tiny_plane.folder(session_id)) == before
    assert not (tiny_plane.data.parent / "evil").exists()
    told = [e.type for e in await tiny_plane.store.journal.after(number, limit=100) if e.type != "PING"]
    assert told == ["restore.failed", "restore.failed"]


async def test_a_failure_in_the_middle_puts_everything_back(
    tiny_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tiny_plane.add_proxies(2)
    ids = [await linked(tiny_plane, f"97250000000{n}") for n in range(3)]
    backup_id = await backed_up(tiny_plane)
    await tiny_plane.good("DELETE", f"/api/sessions/{ids[2]}?forget=true")
    for session_id in ids[:2]:
        await wait_status(tiny_plane, session_id, "connected")
    (tiny_plane.folder(ids[0]) / "note").write_text("as it is now")
    await tiny_plane.good("PUT", f"/api/anti-ban/sessions/{ids[0]}/limits", {"daily": 77})

    def known(session: dict[str, Any]) -> dict[str, Any]:
        return {k: v for k, v in session.items() if k not in {"connectedAt", "lastPing", "worker", "today"}}

    before = {i: known(await tiny_plane.good("GET", f"/api/sessions/{i}")) for i in ids[:2]}
    restore, calls = CarryingStore.restore, []

    async def third_fails(self: CarryingStore, session_id: str, *args: Any, **more: Any) -> Placed:
        calls.append(more["mode"])
        if calls.count("backup") == 3 and more["mode"] == "backup":
            raise RuntimeError("invented")
        return await restore(self, session_id, *args, **more)

    monkeypatch.setattr(CarryingStore, "restore", third_fails)
    asked = await tiny_plane.call("POST", f"/api/v1/backups/restore/{backup_id}", {"force": True})
    # it may have failed before the answer was written: then the answer says so
    assert asked.status == 202 or asked.code == "RESTORE_FAILED", asked.body
    done = await ended(tiny_plane)
    assert (done["state"], done["error"]["code"]) == ("failed", "RESTORE_FAILED")
    assert "invented" not in str(done)
    for session_id in ids[:2]:
        await wait_status(tiny_plane, session_id, "connected")
        assert known(await tiny_plane.good("GET", f"/api/sessions/{session_id}")) == before[session_id]
    assert (tiny_plane.folder(ids[0]) / "note").read_text() == "as it is now"
    assert (await tiny_plane.call("GET", f"/api/sessions/{ids[2]}")).status == 404
    assert not tiny_plane.folder(ids[2]).exists()
    limits = await tiny_plane.good("GET", f"/api/anti-ban/sessions/{ids[0]}/limits")
    assert limits["override"]["daily"] == 77
    assert not (tiny_plane.server.settings.sessions_path / ".restore").exists()
    await assert_sound(tiny_plane.store)


async def test_a_store_that_is_away_for_a_moment_does_not_undo_a_restore(
    tiny_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tiny_plane.add_proxies(1)
    ids = [await linked(tiny_plane, f"97250000000{n}") for n in range(2)]
    backup_id = await backed_up(tiny_plane)
    restore, calls = CarryingStore.restore, []

    async def second_fails(self: CarryingStore, session_id: str, *args: Any, **more: Any) -> Placed:
        calls.append(session_id)
        if len(calls) == 2:
            raise StoreUnavailable
        return await restore(self, session_id, *args, **more)

    monkeypatch.setattr(CarryingStore, "restore", second_fails)
    done = await restored(tiny_plane, backup_id, force=True)
    assert sorted(done["result"]["sessions"]) == sorted(ids)
    assert len(calls) == 4  # taken up again from the beginning; what was done is known by its token
    assert not (tiny_plane.server.settings.sessions_path / ".restore").exists()
    for session_id in ids:
        await wait_status(tiny_plane, session_id, "connected")


async def test_messages_wait_meanwhile(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    backup_id = await backed_up(tiny_plane)
    sent = {"to": "972507654321", "message": "hello", "sessionId": session_id}
    accepted = await tiny_plane.good("POST", "/api/v1/send", sent, status=202)
    await restored(tiny_plane, backup_id)
    await wait_status(tiny_plane, session_id, "connected")
    found = await tiny_plane.good("GET", f"/api/v1/messages/{accepted['messageId']}")
    assert found["status"] in {"queued", "outbox", "claimed"}


# moving ----------------------------------------------------------------------------------------------------------
async def test_an_exported_session_never_runs_here_again_until_it_is_imported(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    files = tree(tiny_plane.folder(session_id))
    await tiny_plane.good("POST", f"/api/v1/sessions/{session_id}/export", status=202)
    done = await ended(tiny_plane)
    assert done["state"] == "done", done
    session = await tiny_plane.good("GET", f"/api/sessions/{session_id}")
    assert (session["status"], session["reason"], session["proxy"]) == ("stopped", "MOVED", None)
    assert await tiny_plane.pid(session_id) is None
    for order in ("start", "restart"):
        refused = await tiny_plane.call("POST", f"/api/sessions/{session_id}/{order}")
        assert (refused.status, refused.code) == (409, "SESSION_MOVED")
    exported = done["result"]["backupId"]
    listed = (await tiny_plane.good("GET", "/api/v1/backups"))["backups"]
    assert [(b["id"], b["kind"]) for b in listed] == [(exported, "export")]
    await tiny_plane.good("POST", "/api/v1/sessions/import", {"backupId": exported}, status=202)
    assert (await ended(tiny_plane))["state"] == "done"
    await wait_status(tiny_plane, session_id, "connected")
    for name in ("auth/journal", "outbox/journal"):
        assert tree(tiny_plane.folder(session_id))[name] == files[name]
    again = await tiny_plane.call("POST", "/api/v1/sessions/import", {"backupId": exported})
    if again.status == 202:
        assert (await ended(tiny_plane))["error"]["code"] == "SESSION_EXISTS"
    else:
        assert again.code == "SESSION_EXISTS"
    assert await tiny_plane.status(session_id) in {"connected", "reconnecting"}
    types = await journal_types(tiny_plane)
    assert {"session.exported", "session.export_made", "restore.done"} <= set(types)


async def test_an_export_that_fails_leaves_the_session_running(
    tiny_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")

    async def fails(*_: object) -> bool:
        raise RuntimeError("invented")

    monkeypatch.setattr(CarryingStore, "mark_moved", fails)
    answer = await tiny_plane.call("POST", f"/api/v1/sessions/{session_id}/export")
    assert answer.status in {202, 500}
    assert (await ended(tiny_plane))["state"] == "failed"
    await wait_status(tiny_plane, session_id, "connected")
    assert list(tiny_plane.server.settings.backups_path.iterdir()) == []


async def test_an_import_into_another_proxy(tiny_plane: ControlPlane) -> None:
    await tiny_plane.add_proxies(1)
    session_id = await linked(tiny_plane, "972500000001")
    await tiny_plane.good("POST", f"/api/v1/sessions/{session_id}/export", status=202)
    exported = (await ended(tiny_plane))["result"]["backupId"]
    wrong = await tiny_plane.call("POST", "/api/v1/sessions/import", {"backupId": exported, "proxy": "socks5://x:1"})
    assert (wrong.status, wrong.code) == (400, "INVALID_PROXY")
    body = {"backupId": exported, "proxy": proxy_url(6)}
    await tiny_plane.good("POST", "/api/v1/sessions/import", body, status=202)
    assert (await ended(tiny_plane))["state"] == "done"
    await wait_status(tiny_plane, session_id, "connected")
    assert (await tiny_plane.good("GET", f"/api/sessions/{session_id}"))["proxy"]["port"] == 7
