"""Random numbers for ids: as good as the system's own, which are asked for many at a time.

A system call for each message would cost more than checking its recipient.
"""

from __future__ import annotations

import os

_AT_ONCE = 512


class Chance:
    def __init__(self, size: int) -> None:
        self._size = size
        self._left: list[bytes] = []
        # a copy of this process must not draw the same ones
        os.register_at_fork(after_in_child=self._left.clear)

    def hex(self) -> str:
        if not self._left:
            drawn = os.urandom(self._size * _AT_ONCE)
            self._left += (drawn[at : at + self._size] for at in range(0, len(drawn), self._size))
        return self._left.pop().hex()
