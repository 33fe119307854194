"""Who a process is: pid, start time and boot together. A pid alone is handed out again and again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_DEAD_STATES = frozenset("ZX")  # zombie: ended, only its exit code waits to be collected


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """One process, never another one that got the same pid later."""

    pid: int
    start_ticks: int  # clock ticks after boot, field 22 of /proc/<pid>/stat; exec does not change it
    boot_id: str  # pids and ticks start again with every boot

    def as_text(self) -> str:
        return f"{self.pid} {self.start_ticks} {self.boot_id}\n"


def parse_identity(text: str) -> ProcessIdentity | None:
    """The content of a pid file; None when it is none: a damaged file must never point at some process."""
    words = text.split()
    if len(words) != 3 or not all(word.isascii() and word.isdigit() for word in words[:2]):
        return None
    pid, start_ticks = int(words[0]), int(words[1])
    # 0 and 1 are never ours; a signal to them would hit our own group or init
    return ProcessIdentity(pid=pid, start_ticks=start_ticks, boot_id=words[2]) if pid > 1 else None


def parse_stat(text: str) -> tuple[str, int]:
    """(state, start ticks) of a /proc/<pid>/stat line."""
    # the second field is the program's name in parentheses and may itself hold spaces and parentheses
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


@cache
def boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def read_identity(pid_file: Path) -> ProcessIdentity | None:
    """What a pid file says, whether or not that process still lives."""
    try:
        return parse_identity(pid_file.read_text(encoding="ascii", errors="replace"))
    except OSError:
        return None


def identity_of(pid: int) -> ProcessIdentity | None:
    """Who has this pid now."""
    stat = _stat(pid)
    return ProcessIdentity(pid=pid, start_ticks=stat[1], boot_id=boot_id()) if stat else None


def is_present(identity: ProcessIdentity) -> bool:
    """It lives, or has ended but still holds its pid."""
    return _state(identity) is not None


def is_alive(identity: ProcessIdentity) -> bool:
    """It lives."""
    state = _state(identity)
    return state is not None and state not in _DEAD_STATES


def _state(identity: ProcessIdentity) -> str | None:
    stat = _stat(identity.pid)
    if stat is None or stat[1] != identity.start_ticks or identity.boot_id != boot_id():
        return None
    return stat[0]


def _stat(pid: int) -> tuple[str, int] | None:
    try:
        # a program may give itself a name that is no valid UTF-8
        return parse_stat((_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace"))
    except OSError:  # no such process, or it ended while we read
        return None
