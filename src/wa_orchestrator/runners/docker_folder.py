"""A session's folder as its container needs it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

from wa_orchestrator.runners.docker_container import SESSIONS_INSIDE
from wa_orchestrator.runners.port import WorkerSpec

_CA_FILE = ".ca.pem"


def prepare_folder(folder: Path, spec: WorkerSpec, *, user: str) -> WorkerSpec:
    """Makes the folder; what the worker is told to read lies in it, by the path it has inside."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    ca_file = spec.extra_env.get("NODE_EXTRA_CA_CERTS")
    if ca_file:  # a container sees nothing of ours but this folder
        shutil.copyfile(ca_file, folder / _CA_FILE)
        inside = f"{SESSIONS_INSIDE}/{spec.session_id}/{_CA_FILE}"
        spec = replace(spec, extra_env={**spec.extra_env, "NODE_EXTRA_CA_CERTS": inside})
    if os.geteuid() == 0:  # otherwise the container runs as the user that we are
        _give_to(folder, user)
    return spec


def _give_to(folder: Path, user: str) -> None:
    """Makes the container's user the owner of a session's folder and all that is in it."""
    uid, gid = map(int, user.split(":"))
    for path in (folder, *folder.rglob("*")):
        status = path.lstat()
        if (status.st_uid, status.st_gid) != (uid, gid):
            os.chown(path, uid, gid, follow_symlinks=False)
