"""Opens a backup and proves it harmless and whole before anything is touched: every name, size and checksum."""

from __future__ import annotations

import hashlib
import io
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from wa_orchestrator.backups import manifest as manifests
from wa_orchestrator.backups.auth_files import read_auth
from wa_orchestrator.backups.manifest import FileEntry, Manifest, SessionEntry
from wa_orchestrator.backups.sealing import MAGIC, SealedReader
from wa_orchestrator.errors import (
    BackupDamaged,
    BackupNeedsPassphrase,
    BackupTooNew,
    BackupUnsafe,
    InvalidSessionId,
)
from wa_orchestrator.model.session import checked_session_id

_PIECE = 1024 * 1024
# Auth files shrink to a third, histories of one key a little more; a file of zeros shrinks a thousandfold.
_MAX_RATIO = 200
_SMALL = 1024 * 1024  # below this a high ratio does no harm
_ENTRIES_MAX = 2_000_000


@dataclass(frozen=True)
class _Entry:
    info: zipfile.ZipInfo
    session_id: str
    path: str


class OpenBackup:
    """A backup whose names and sizes are checked; `check_contents` checks every byte."""

    def __init__(self, archive: zipfile.ZipFile, *, now_ms: int) -> None:
        self._zip = archive
        infos = archive.infolist()
        _check_structure(infos)
        self._entries = _by_session(infos)
        written = self._read_manifest(infos)
        self.has_manifest = written is not None
        self.manifest = written or self._guessed_manifest(now_ms)
        if written:
            self._compare_with(written)

    @property
    def sessions(self) -> dict[str, SessionEntry]:
        return {entry.session_id: entry for entry in self.manifest.sessions}

    def _read_manifest(self, infos: list[zipfile.ZipInfo]) -> Manifest | None:
        if not any(info.filename == manifests.NAME for info in infos):
            return None
        if self._zip.getinfo(manifests.NAME).file_size > manifests.MAX_BYTES:
            raise _unsafe("bomb", manifests.NAME)
        with _zip_errors(manifests.NAME):
            data = self._zip.read(manifests.NAME)
        try:
            if manifests.format_of(data) > manifests.FORMAT:
                raise BackupTooNew
            found = manifests.decode(data)
        except msgspec.MsgspecError:
            raise _damaged("manifest") from None
        names = [entry.session_id for entry in found.sessions]
        if len(set(names)) != len(names):
            raise _damaged("manifest")
        for entry in found.sessions:
            _session_id(entry.session_id)
            if not isinstance(entry.store.get("record"), dict) or not isinstance(entry.store.get("proxies"), dict):
                raise _damaged("manifest")
        return found

    def _guessed_manifest(self, now_ms: int) -> Manifest:
        """Without a manifest the auth files themselves say whose they are."""
        entries = []
        for session_id, found in sorted(self._entries.items()):
            files = tuple(FileEntry(path=entry.path, bytes=entry.info.file_size, sha256="") for entry in found.values())
            with tempfile.TemporaryDirectory(prefix="wa-look-") as folder:
                for name in ("auth/journal", "creds.json"):
                    if name in found:
                        self._write(found[name], Path(folder) / name, expected=None)
                auth = read_auth(Path(folder))
            if auth is not None:
                entries.append(manifests.entry_from_auth(session_id, auth, files, now_ms=now_ms))
        if not entries:
            raise _damaged("no_sessions")
        return Manifest(sessions=tuple(entries))

    def _compare_with(self, manifest: Manifest) -> None:
        listed = {(entry.session_id, file.path): file for entry in manifest.sessions for file in entry.files}
        present = {(s, path): entry for s, found in self._entries.items() for path, entry in found.items()}
        for key in listed.keys() - present.keys():
            raise _damaged("missing_file", "/".join(key))
        for key in present.keys() - listed.keys():
            raise _unsafe("unlisted_file", "/".join(key))
        for key, file in listed.items():
            if present[key].info.file_size != file.bytes:
                raise _damaged("size", "/".join(key))

    def check_contents(self) -> Iterator[str]:
        """Reads everything and compares; gives each session's id when it is proved."""
        for entry in self.manifest.sessions:
            for file in entry.files:
                self._write(self._entries[entry.session_id][file.path], None, expected=file)
            yield entry.session_id

    def extract(self, session_id: str, target: Path) -> None:
        """Writes a session's files, checked once more on the way and synced."""
        target.mkdir(mode=0o700, parents=True)
        for file in self.sessions[session_id].files:
            self._write(self._entries[session_id][file.path], target / file.path, expected=file)

    def _write(self, entry: _Entry, to: Path | None, *, expected: FileEntry | None) -> None:
        digest, size = hashlib.sha256(), 0
        where = f"{entry.session_id}/{entry.path}"
        if to is not None:
            to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _zip_errors(where), self._zip.open(entry.info) as source, _sink(to) as target:
            while piece := source.read(_PIECE):
                size += len(piece)
                if size > entry.info.file_size:
                    raise _unsafe("bomb", where)
                digest.update(piece)
                target.write(piece)
        if size != entry.info.file_size or (expected and size != expected.bytes):
            raise _damaged("size", where)
        if expected and expected.sha256 and digest.hexdigest() != expected.sha256:
            raise _damaged("checksum", where)


@contextmanager
def opened(file: Path, *, passphrase: str, now_ms: int) -> Iterator[OpenBackup]:
    """A backup to look into. Raises why it cannot be trusted or read."""
    with file.open("rb") as raw:
        sealed = raw.read(len(MAGIC)) == MAGIC
        raw.seek(0)
        if sealed and not passphrase:
            raise BackupNeedsPassphrase
        source = io.BufferedReader(SealedReader(raw, passphrase), _PIECE) if sealed else raw
        try:
            with zipfile.ZipFile(source) as archive:
                yield OpenBackup(archive, now_ms=now_ms)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, UnicodeDecodeError):
            raise _damaged("not_a_zip") from None


# the rules -------------------------------------------------------------------------------------------------------
def _check_structure(infos: list[zipfile.ZipInfo]) -> None:
    if len(infos) > _ENTRIES_MAX:
        raise _unsafe("bomb", "")
    seen: set[str] = set()
    for info in infos:
        name = info.filename
        _check_name(name)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind == stat.S_IFLNK:
            raise _unsafe("link", name)
        if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
            raise _unsafe("special_file", name)
        if info.flag_bits & 0x1 or info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise _unsafe("compression", name)
        if info.file_size > _SMALL and info.file_size > _MAX_RATIO * max(1, info.compress_size):
            raise _unsafe("bomb", name)
        # two names that one folder cannot tell apart
        if name.casefold() in seen:
            raise _unsafe("duplicate", name)
        seen.add(name.casefold())
    ends = 0
    for info in sorted(infos, key=lambda info: info.header_offset):
        # entries that share their bytes make a small file endless
        if info.header_offset < ends:
            raise _unsafe("bomb", info.filename)
        ends = info.header_offset + info.compress_size


def _check_name(name: str) -> None:
    parts = name.removesuffix("/").split("/")
    bad = name.startswith("/") or "\\" in name or ":" in name or any(part in {"", ".", ".."} for part in parts)
    if bad or len(name) > 1024 or not name.isprintable():
        raise _unsafe("path_escape", name)


def _by_session(infos: list[zipfile.ZipInfo]) -> dict[str, dict[str, _Entry]]:
    """Files by session and path; `sessions/<id>/…`, or `<id>/…` as a plain zip of the folder has it."""
    found: dict[str, dict[str, _Entry]] = {}
    for info in infos:
        if info.is_dir() or info.filename == manifests.NAME:
            continue
        name = info.filename.removeprefix(f"{manifests.FOLDER}/")
        session_id, _, path = name.partition("/")
        if not path:
            raise _unsafe("name", info.filename)
        found.setdefault(_session_id(session_id), {})[path] = _Entry(info, session_id, path)
    return found


def _session_id(text: str) -> str:
    try:
        return checked_session_id(text)
    except InvalidSessionId:
        raise _unsafe("name", text) from None


class _Nowhere(io.RawIOBase):
    def write(self, data: object, /) -> int:
        return 0


@contextmanager
def _sink(to: Path | None) -> Iterator[io.RawIOBase | io.BufferedWriter]:
    if to is None:
        yield _Nowhere()
        return
    with to.open("xb") as target:
        to.chmod(0o600)
        yield target


@contextmanager
def _zip_errors(where: str) -> Iterator[None]:
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError):
        raise _damaged("checksum", where) from None


def _unsafe(problem: str, name: str) -> BackupUnsafe:
    return BackupUnsafe(details={"problem": problem, "entry": name[:200]})


def _damaged(problem: str, name: str = "") -> BackupDamaged:
    return BackupDamaged(details={"problem": problem, "entry": name[:200]} if name else {"problem": problem})
