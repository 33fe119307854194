"""Fleet operations from the command line."""

from __future__ import annotations

import json
import subprocess

from support.system import PROGRAM, System


def test_a_rolling_restart_brings_every_session_back(system: System, phone: str, other_phone: str) -> None:
    sessions = [system.connected(phone), system.connected(other_phone)]
    before = [system.worker_pid(s) for s in sessions]
    command = [str(PROGRAM), "--data-dir", str(system.data), "--json", "sessions", "restart", "--all", "--rolling"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    assert {a["sessionId"]: a["status"] for a in answers} == dict.fromkeys(sessions, "connected")
    assert not set(before) & {system.worker_pid(s) for s in sessions}
