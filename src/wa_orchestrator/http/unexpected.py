"""What a caller is told of an error that nobody foresaw."""

from __future__ import annotations

import errno

from wa_orchestrator.errors import DiskFull, OrchestratorError

_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


def told_to_caller(error: Exception) -> OrchestratorError:
    """A full disk has a name; of the rest only the log knows more."""
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return DiskFull()
    return OrchestratorError()
