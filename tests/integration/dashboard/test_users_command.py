"""`wa-orchestrator users` works on the store itself."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from support.servers import StoreServer
from support.system import PROGRAM


def users(server: StoreServer, folder: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "REDIS_URL": server.url, "DATA_DIR": str(folder)}
    return subprocess.run([str(PROGRAM), "users", *words], input=given, env=env, cwd=folder, text=True,
                          capture_output=True, timeout=60, check=False)  # fmt: skip


def test_a_person_is_added_listed_and_removed(valkey: StoreServer, tmp_path: Path) -> None:
    added = users(valkey, tmp_path, "add", "dana", "--password-stdin", "--json", given="a long password\n")
    assert (added.returncode, json.loads(added.stdout)) == (0, {"name": "dana", "added": True})
    again = users(valkey, tmp_path, "add", "dana", "--password-stdin", given="another password\n")
    assert "new password" in again.stdout
    listed = users(valkey, tmp_path, "list")
    assert "dana" in listed.stdout
    assert "scrypt" not in listed.stdout
    assert users(valkey, tmp_path, "remove", "dana").returncode == 0
    assert "no user dana" in users(valkey, tmp_path, "remove", "dana").stderr
    assert "Nobody yet" in users(valkey, tmp_path, "list").stdout


def test_what_cannot_be_a_user_is_refused(valkey: StoreServer, tmp_path: Path) -> None:
    assert "10 characters" in users(valkey, tmp_path, "add", "dana", "--password-stdin", given="short\n").stderr
    assert users(valkey, tmp_path, "add", "a b", "--password-stdin", given="a long password\n").returncode == 2
