"""Manipulated and damaged backups: each is refused for its own reason, before anything is written."""

from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.backups import creds, write_auth, write_ledger
from wa_orchestrator.backups import sealing
from wa_orchestrator.backups.archive import ArchiveWriter
from wa_orchestrator.backups.checking import opened
from wa_orchestrator.backups.manifest import Manifest, SessionEntry
from wa_orchestrator.errors import (
    BackupDamaged,
    BackupNeedsPassphrase,
    BackupTooNew,
    BackupUnsafe,
    BackupWrongPassphrase,
    OrchestratorError,
)

PHONE = "972500000001"


@pytest.fixture(autouse=True)
def quick_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "_SCRYPT_N", 2)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    return make(tmp_path / "good.zip", tmp_path)


def make(file: Path, scratch: Path, *, passphrase: str = "") -> Path:
    session = scratch / "session"
    if not session.exists():
        write_auth(session, PHONE, generation=7)
        write_ledger(session, generation=3)
        (session / "tmp").mkdir()
        (session / "tmp" / "half").write_text("left out")
        (session / "link").symlink_to("/etc/passwd")
    writer = ArchiveWriter(file, passphrase=passphrase)
    files = writer.add_session("worker_1", session)
    entry = SessionEntry(session_id="worker_1", store={"record": {"id": "worker_1"}, "proxies": {}}, files=files)
    writer.finish(Manifest(sessions=(entry,)))
    return file


def check(file: Path, passphrase: str = "") -> list[str]:
    with opened(file, passphrase=passphrase, now_ms=1) as backup:
        return list(backup.check_contents())


def rewritten(
    good: Path, change: Callable[[dict[str, bytes], zipfile.ZipFile], None], *, name: str = "bad.zip"
) -> Path:
    """The good backup, unpacked, changed and packed again by somebody else."""
    bad = good.with_name(name)
    with zipfile.ZipFile(good) as archive:
        content = {info.filename: archive.read(info) for info in archive.infolist()}
    with zipfile.ZipFile(bad, "w", zipfile.ZIP_DEFLATED) as archive:
        change(content, archive)
        for entry, data in content.items():
            archive.writestr(entry, data)
    return bad


def with_entry(
    name: str, data: bytes = b"x", *, mode: int = 0o100600
) -> Callable[[dict[str, bytes], zipfile.ZipFile], None]:
    def change(_: dict[str, bytes], archive: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo("x")
        info.filename = name
        info.external_attr = mode << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, data)

    return change


def in_manifest(old: str, new: str) -> Callable[[dict[str, bytes], zipfile.ZipFile], None]:
    def change(content: dict[str, bytes], _: zipfile.ZipFile) -> None:
        text = content["manifest.json"].decode()
        assert old in text
        content["manifest.json"] = text.replace(old, new).encode()

    return change


def changed_file(content: dict[str, bytes], _: zipfile.ZipFile) -> None:
    data = bytearray(content["sessions/worker_1/auth/journal"])
    data[50] ^= 1
    content["sessions/worker_1/auth/journal"] = bytes(data)


def longer_file(content: dict[str, bytes], _: zipfile.ZipFile) -> None:
    content["sessions/worker_1/auth/journal"] += b"more"


def missing_file(content: dict[str, bytes], _: zipfile.ZipFile) -> None:
    del content["sessions/worker_1/outbox/journal"]


def no_json(content: dict[str, bytes], _: zipfile.ZipFile) -> None:
    content["manifest.json"] = b"not json"


def huge(content: dict[str, bytes], _: zipfile.ZipFile) -> None:
    content["sessions/worker_1/auth/journal"] = bytes(20 * 1024 * 1024)


@dataclass(frozen=True)
class Case:
    name: str
    change: Callable[[dict[str, bytes], zipfile.ZipFile], None]
    error: type[OrchestratorError]
    problem: str | None


CASES = [
    Case("path that climbs out", with_entry("sessions/worker_1/../../evil"), BackupUnsafe, "path_escape"),
    Case("path that climbs out first", with_entry("../evil"), BackupUnsafe, "path_escape"),
    Case("absolute path", with_entry("/etc/cron.d/evil"), BackupUnsafe, "path_escape"),
    Case("path of another system", with_entry("sessions\\..\\evil"), BackupUnsafe, "path_escape"),
    Case("drive letter", with_entry("C:/evil"), BackupUnsafe, "path_escape"),
    Case("line feed in a name", with_entry("sessions/worker_1/a\nb"), BackupUnsafe, "path_escape"),
    Case("hidden folder instead of a session", with_entry("sessions/.aside/x"), BackupUnsafe, "name"),
    Case("file beside the sessions", with_entry("sessions/loose"), BackupUnsafe, "name"),
    Case("link", with_entry("sessions/worker_1/l", b"/etc/passwd", mode=0o120777), BackupUnsafe, "link"),
    Case("device", with_entry("sessions/worker_1/d", b"", mode=0o020600), BackupUnsafe, "special_file"),
    Case("the same name twice", with_entry("SESSIONS/worker_1/auth/journal"), BackupUnsafe, "duplicate"),
    Case("a file nobody listed", with_entry("sessions/worker_1/auth/more"), BackupUnsafe, "unlisted_file"),
    Case("a session nobody listed", with_entry("sessions/worker_2/auth/journal"), BackupUnsafe, "unlisted_file"),
    Case("huge ratio", huge, BackupUnsafe, "bomb"),
    Case("changed file", changed_file, BackupDamaged, "checksum"),
    Case("longer file", longer_file, BackupDamaged, "size"),
    Case("missing file", missing_file, BackupDamaged, "missing_file"),
    Case("manifest that is no JSON", no_json, BackupDamaged, "manifest"),
    Case("changed checksum", in_manifest('"sha256": "', '"sha256": "00'), BackupDamaged, "checksum"),
    Case("wrong type in the manifest", in_manifest('"files": [', '"files": 3, "x": ['), BackupDamaged, "manifest"),
    Case("session id that is a path", in_manifest('Id": "worker_1"', 'Id": "../x"'), BackupUnsafe, "name"),
    Case("newer format", in_manifest('"format": 1', '"format": 2'), BackupTooNew, None),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_manipulated_backup_is_refused(case: Case, good: Path) -> None:
    with pytest.raises(case.error) as refused:
        check(rewritten(good, case.change))
    if case.problem:
        assert (refused.value.details or {})["problem"] == case.problem


def test_a_good_backup_passes_and_holds_only_what_is_needed(good: Path) -> None:
    assert check(good) == ["worker_1"]
    with zipfile.ZipFile(good) as archive:
        assert sorted(archive.namelist()) == [
            "manifest.json", "sessions/worker_1/auth/journal", "sessions/worker_1/outbox/journal",
        ]  # fmt: skip
    assert good.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_backup_is_refused(good: Path, share: float) -> None:
    data = good.read_bytes()
    good.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(BackupDamaged):
        check(good)


def test_a_bomb_whose_entry_lies_about_its_size_is_refused(good: Path) -> None:
    """The size in the directory is a lie: what comes out is larger."""
    bad = rewritten(good, lambda content, _: content.update({"sessions/worker_1/auth/journal": bytes(600_000)}))
    data = bytearray(bad.read_bytes())
    # the central directory's uncompressed size of that entry
    at = data.rfind(b"PK\x01\x02", 0, data.rfind(b"sessions/worker_1/auth/journal"))
    data[at + 24 : at + 28] = struct.pack("<I", 1000)
    bad.write_bytes(bytes(data))
    with pytest.raises((BackupDamaged, BackupUnsafe)):
        check(bad)


def test_entries_that_share_their_bytes_are_refused(good: Path) -> None:
    """The better zip bomb: many names, one content."""
    data = bytearray(good.read_bytes())
    first = data.find(b"PK\x01\x02")
    second = data.find(b"PK\x01\x02", first + 4)
    data[second + 42 : second + 46] = data[first + 42 : first + 46]  # both begin at the same place
    good.write_bytes(bytes(data))
    with pytest.raises((BackupUnsafe, BackupDamaged)):
        check(good)


def test_an_encrypted_backup_needs_the_right_passphrase(tmp_path: Path) -> None:
    file = make(tmp_path / "sealed.zip.enc", tmp_path, passphrase="correct horse")
    assert check(file, "correct horse") == ["worker_1"]
    with pytest.raises(BackupWrongPassphrase):
        check(file, "wrong horse")
    with pytest.raises(BackupNeedsPassphrase):
        check(file)


def test_without_a_manifest_the_auth_files_say_whose_they_are(tmp_path: Path) -> None:
    """A plain zip of the sessions' folder."""
    bare = tmp_path / "bare.zip"
    make(tmp_path / "unused.zip", tmp_path)
    with zipfile.ZipFile(bare, "w") as archive:
        archive.write(tmp_path / "session" / "auth" / "journal", "shop/auth/journal")
        archive.writestr("old-one/creds.json", creds("972500000002"))
        archive.writestr("empty/creds.json", "")
    with opened(bare, passphrase="", now_ms=1) as backup:
        assert not backup.has_manifest
        phones = {s: entry.store["record"]["phone"] for s, entry in backup.sessions.items()}
        assert phones == {"shop": PHONE, "old-one": "972500000002"}
        assert backup.sessions["shop"].generation == 7
        assert backup.sessions["shop"].store["phone"]["firstConnectedAt"] == "1700000000000"
        assert sorted(backup.check_contents()) == ["old-one", "shop"]


def test_a_zip_without_any_session_is_no_backup(tmp_path: Path) -> None:
    file = tmp_path / "x.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("readme/notes.txt", json.dumps({}))
    with pytest.raises(BackupDamaged):
        check(file)
