"""Word that a caller hung up, for who waits on its behalf: a task that only listens would double what a wait costs."""

from __future__ import annotations

from collections.abc import Callable


class HangUp:
    """Of one connection. One request at a time is served on it, so one waits at most."""

    __slots__ = ("_then", "happened")

    def __init__(self) -> None:
        self.happened = False
        self._then: Callable[[], None] | None = None

    def tell(self, then: Callable[[], None] | None) -> None:
        """Calls `then` when the caller hangs up, or now if it did; None: nobody waits any more."""
        self._then = then
        if self.happened:
            self._call()

    def happen(self) -> None:
        self.happened = True
        self._call()

    def _call(self) -> None:
        then, self._then = self._then, None
        if then is not None:
            then()
