"""How many files this process may open: each worker, each waiting poll and each client takes one or more."""

from __future__ import annotations

import resource

from wa_orchestrator.errors import SettingsError

ENOUGH = 4096  # a thousand workers that wait and report, a client connection for some
LEAST = 512  # below that not even the store, the HTTP side and a few workers fit
WHAT_TO_DO = "Run `ulimit -n 8192` before the server, or set LimitNOFILE=8192 in its service."


def most_allowed() -> int | None:
    """What we may raise our own limit to; None: there is none."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if hard == resource.RLIM_INFINITY else hard


def raise_limit() -> None:
    """Takes what we may have. Shells give 1024 by habit, although more is allowed. Far too few end the start."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    if soft != resource.RLIM_INFINITY and soft < LEAST:
        raise SettingsError(f"This user may open only {soft} files at once, too few for a server. {WHAT_TO_DO}")
