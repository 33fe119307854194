"""Locks on files that processes hand to each other: the kernel gives them up when the last holder is gone."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def try_lock(file: Path) -> Iterator[int | None]:
    """The locked descriptor, or None when someone else holds the lock.

    The lock belongs to the open file, not to a process: a program that inherits the descriptor goes on holding it
    after we close ours, also after kill -9 of the control plane.
    """
    fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield fd
    finally:
        os.close(fd)


def is_locked(file: Path) -> bool:
    if not file.exists():
        return False
    with try_lock(file) as fd:
        return fd is None
