"""Names of backups, and which of them are kept. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

_DAILY = re.compile(r"^backup_[0-9]{4}-[0-9]{2}-[0-9]{2}(_[0-9]{6})?$")
_ID = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,150}$")
PLAIN, SEALED = ".zip", ".zip.enc"


def is_backup_id(text: str) -> bool:
    """An id is the file's name without its ending, and never a path."""
    return bool(_ID.fullmatch(text)) and ".." not in text


def id_of(file_name: str) -> str | None:
    """None: no backup, for example one that is still being written."""
    for ending in (SEALED, PLAIN):
        if file_name.endswith(ending) and is_backup_id(file_name.removesuffix(ending)):
            return file_name.removesuffix(ending)
    return None


def kind_of(backup_id: str) -> str:
    if _DAILY.fullmatch(backup_id):
        return "backup"
    return "export" if backup_id.startswith("export_") else "file"


def new_id(now_ms: int, zone: str, taken: Collection[str], *, prefix: str = "backup") -> str:
    """backup_2026-11-15 for the first of a day, backup_2026-11-15_101500 for the others; never one that is taken."""
    moment = datetime.fromtimestamp(now_ms / 1000, ZoneInfo(zone))
    first = f"{prefix}_{moment:%Y-%m-%d}"
    if first not in taken:
        return first
    while (name := f"{prefix}_{moment:%Y-%m-%d_%H%M%S}") in taken:
        moment += timedelta(seconds=1)
    return name


def too_many(backup_ids: Iterable[str], *, keep: int) -> list[str]:
    """The oldest ones beyond `keep`. Exports and files put there by hand are nobody's to remove."""
    ours = sorted(name for name in backup_ids if kind_of(name) == "backup")
    return ours[:-keep] if len(ours) > keep else []
