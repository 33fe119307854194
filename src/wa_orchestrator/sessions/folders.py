"""Session folders on disk: set aside, never thrown away at once."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

_ASIDE = ".aside"  # a session id has no dot, so this is never a session's own folder
_STAMP = re.compile(r"^.+\.(?P<ms>[0-9]{13})$")


def set_aside(sessions_path: Path, session_id: str, *, now_ms: int) -> Path | None:
    """Moves a session's folder out of the way; None when there is none."""
    folder = sessions_path / session_id
    if not folder.is_dir():
        return None
    target = sessions_path / _ASIDE / f"{session_id}.{now_ms}"
    target.parent.mkdir(mode=0o700, exist_ok=True)
    folder.rename(target)
    return target


def remove_old(sessions_path: Path, *, older_than_ms: int) -> list[str]:
    """Removes what was set aside before `older_than_ms`."""
    removed: list[str] = []
    aside = sessions_path / _ASIDE
    if not aside.is_dir():
        return removed
    for folder in aside.iterdir():
        stamp = _STAMP.match(folder.name)
        if stamp and int(stamp["ms"]) < older_than_ms:
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder.name)
    return removed
