"""Log files of detached programs: kept small without the program's help."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def older(log_file: Path) -> Path:
    """Where the previous part of a log is kept."""
    return log_file.with_name(f"{log_file.name}.1")


def is_larger(log_file: Path, limit_bytes: int) -> bool:
    try:
        return log_file.stat().st_size > limit_bytes
    except FileNotFoundError:
        return False


def turn_over(log_file: Path, limit_bytes: int) -> None:
    """Before a start: nobody writes to the file."""
    if is_larger(log_file, limit_bytes):
        log_file.replace(older(log_file))


def turn_over_in_use(log_file: Path, limit_bytes: int) -> None:
    """While the program writes: it appends, so its next line goes to the start of the emptied file.

    Lines written between the copy and the emptying are lost; a log may lose a line, the disk may not fill up.
    """
    if not is_larger(log_file, limit_bytes):
        return
    target = older(log_file)
    unfinished = target.with_name(f"{target.name}.tmp")
    shutil.copyfile(log_file, unfinished)
    unfinished.chmod(0o600)
    unfinished.replace(target)
    os.truncate(log_file, 0)


def last_lines(log_file: Path, count: int) -> list[str]:
    """The end of a log, for an error text."""
    try:
        with log_file.open("rb") as file:
            file.seek(max(0, log_file.stat().st_size - 200 * count))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-count:]
