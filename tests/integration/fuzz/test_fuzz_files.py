"""Files from outside: uploads for messages, and backups to restore from."""

from __future__ import annotations

import io
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fuzzed import SESSION, Fuzzed
from support.strange import VALUES, damaged, encoded, fuzz
from support.system import wait_for

BYTES = {"Content-Type": "application/octet-stream"}


def test_uploads_are_whole_or_not_there(fuzzed: Fuzzed) -> None:
    folder = fuzzed.system.data / "media"
    kept = len(list(folder.iterdir())) if folder.is_dir() else 0

    @fuzz(50)
    @given(st.binary(max_size=400), st.booleans())
    def small(raw: bytes, chunked: bool) -> None:
        nonlocal kept
        body: bytes | Iterator[bytes] = iter([raw[:7], raw[7:]]) if chunked else raw
        headers = {**BYTES, "Transfer-Encoding": "chunked"} if chunked else BYTES
        status, answer = fuzzed.call("POST", "/api/v1/media", body, headers)
        assert status in {201, 422}, answer
        kept += status == 201

    small()
    for size in (199_999, 200_001, 5_000_000):
        status, _ = fuzzed.call("POST", "/api/v1/media", b"x" * size, BYTES)
        assert status == (201 if size < 200_000 else 413) or (status == 0 and size > 200_000)
        kept += status == 201
    wait_for(lambda: len(list(folder.iterdir())) == kept, what="only whole uploads to be there", timeout_s=5)


@pytest.fixture(scope="module")
def backup(fuzzed: Fuzzed) -> bytes:
    """A real one of this server."""
    fuzzed.system.api.post("/api/v1/backups/create")
    operation = wait_for(lambda: _ended(fuzzed), what="the backup to end", timeout_s=60)
    assert operation["state"] == "done", operation
    backup_id = fuzzed.system.api.get("/api/v1/backups")["backups"][0]["id"]
    status, raw = fuzzed.call("GET", f"/api/v1/backups/{backup_id}/download")
    assert status == 200
    assert raw.startswith(b"PK")
    return bytes(raw)


def _ended(fuzzed: Fuzzed) -> dict[str, str] | None:
    found = fuzzed.system.api.get("/api/v1/backups/operation")["operation"]
    return found if found and found["state"] in {"done", "failed"} else None


def files_of(fuzzed: Fuzzed) -> dict[str, bytes]:
    root = fuzzed.system.data / "sessions"
    return {
        str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file() and p.name != ".lock"
    }


def try_to_restore(fuzzed: Fuzzed, raw: bytes) -> int:
    """Uploads, looks, checks and restores what was made up; removes it again. The status of the restore."""
    status, answer = fuzzed.call("POST", "/api/v1/backups/upload", raw, BYTES)
    assert status in {0, 201, 400, 409, 413, 422}, answer
    if status != 201:
        return status
    backup_id = answer["id"]
    for method, path in (("GET", f"/api/v1/backups/{backup_id}"), ("POST", f"/api/v1/backups/{backup_id}/verify")):
        assert fuzzed.call(method, path)[0] < 500
    status, answer = fuzzed.call("POST", f"/api/v1/backups/restore/{backup_id}", encoded({"sessions": [SESSION]}))
    if status == 202:
        wait_for(lambda: _ended(fuzzed), what="the restore to end", timeout_s=60)
    assert fuzzed.call("DELETE", f"/api/v1/backups/{backup_id}")[0] == 200
    return status


def test_damaged_backups_change_nothing(fuzzed: Fuzzed, backup: bytes) -> None:
    before = files_of(fuzzed)

    @fuzz(25)
    @given(damaged(backup))
    def bent(raw: bytes) -> None:
        if raw != backup:
            assert try_to_restore(fuzzed, raw) != 202
            assert files_of(fuzzed) == before

    @fuzz(15)
    @given(st.binary(max_size=200))
    def nonsense(raw: bytes) -> None:
        assert try_to_restore(fuzzed, raw) != 202

    bent()
    nonsense()
    assert files_of(fuzzed) == before


def rebuilt(
    backup: bytes, *, more: dict[str, bytes] | None = None, link: str = "", manifest: bytes | None = None
) -> bytes:
    """The same backup with entries added, or with another manifest."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(backup)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            raw = manifest if manifest is not None and entry.filename == "manifest.json" else old.read(entry)
            new.writestr(entry.filename, raw)
        for name, raw in (more or {}).items():
            new.writestr(name, raw)
        if link:
            info = zipfile.ZipInfo(link)
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            new.writestr(info, "/etc/passwd")
    return out.getvalue()


def test_hostile_backups_write_nothing_outside(fuzzed: Fuzzed, backup: bytes, tmp_path: Path) -> None:
    before = files_of(fuzzed)
    outside = fuzzed.system.data.parent / "escaped.txt"
    hostile = [rebuilt(backup, more={f"{'../' * depth}escaped.txt": b"out"}) for depth in (1, 2, 3, 6)] + [
        rebuilt(backup, more={str(outside): b"out"}),
        rebuilt(backup, more={"sessions/../../escaped.txt": b"out"}),
        rebuilt(backup, more={f"sessions/{SESSION}/..\\..\\escaped.txt": b"out"}),
        rebuilt(backup, more={f"sessions/{SESSION}/creds.json/inside": b"out"}),
        rebuilt(backup, link=f"sessions/{SESSION}/link"),
        rebuilt(backup, more={f"sessions/{SESSION}/zeros": bytes(300_000_000)}),  # a small file that unpacks to 300 MB
    ]
    for raw in hostile:
        assert try_to_restore(fuzzed, raw) != 202
        assert files_of(fuzzed) == before
        assert not outside.exists()
    assert not list(fuzzed.system.data.rglob("escaped.txt"))


def test_made_up_manifests_change_nothing(fuzzed: Fuzzed, backup: bytes) -> None:
    before = files_of(fuzzed)

    @fuzz(15)
    @given(VALUES)
    def made_up(value: object) -> None:
        assert try_to_restore(fuzzed, rebuilt(backup, manifest=encoded(value))) != 202

    made_up()
    assert files_of(fuzzed) == before


@pytest.mark.parametrize("path", ["verify", "restore"])
def test_bodies_and_ids_of_restores_take_no_harm(fuzzed: Fuzzed, path: str) -> None:
    @fuzz(40)
    @given(
        st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="?#"), min_size=1, max_size=60),
        st.dictionaries(st.sampled_from(["sessions", "force", "passphrase", "more"]), VALUES, max_size=3),
    )
    def run(backup_id: str, body: dict[str, object]) -> None:
        target = f"/api/v1/backups/{backup_id}/verify" if path == "verify" else f"/api/v1/backups/restore/{backup_id}"
        assert fuzzed.call("POST", target, encoded(body))[0] in {400, 404, 405, 409, 422}

    run()
