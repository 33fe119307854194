"""Which files of a session's folder a backup takes, and copying them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

# Not needed to go on: the launcher's lock, media on its way, and what was set aside after a log-out or an import.
# Events not yet accepted stay with the live session, which delivers them; from a backup they would be told twice.
_LEFT_OUT = frozenset({".lock", "tmp", "events"})
_LEFT_OUT_PREFIXES = ("auth-logged-out-", "imported-")


def files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """(path inside the folder, file) of every plain file that belongs to a backup. Links are never followed."""
    for entry in _entries(folder):
        if entry.name in _LEFT_OUT or entry.name.startswith(_LEFT_OUT_PREFIXES):
            continue
        yield from _walk(entry, entry.name)


def _walk(entry: os.DirEntry[str], name: str) -> Iterator[tuple[str, Path]]:
    if entry.is_file(follow_symlinks=False):
        yield name, Path(entry.path)
    elif entry.is_dir(follow_symlinks=False):
        for inner in _entries(Path(entry.path)):
            yield from _walk(inner, f"{name}/{inner.name}")


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []


def bytes_of(folder: Path) -> int:
    """How much a backup of it copies; files that vanish meanwhile do not count."""
    total = 0
    for _, file in files_of(folder):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue
    return total


def copy_to(folder: Path, target: Path) -> int:
    """Copies a session's files; how many bytes. The worker is stopped, so nothing changes meanwhile."""
    total = 0
    target.mkdir(mode=0o700, parents=True)
    for name, file in files_of(folder):
        to = target / name
        to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copyfile(file, to, follow_symlinks=False)
        to.chmod(0o600)
        total += to.stat().st_size
    return total


def sync_tree(folder: Path) -> None:
    """All of it on the disk: a name that survives a power cut must not lead to an empty file."""
    for parent, _, names in os.walk(folder):
        for name in names:
            sync(Path(parent) / name)
        sync(Path(parent))


def sync(path: Path) -> None:
    """A file or a folder on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
