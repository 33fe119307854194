"""The whole server stopped, or killed, and started again: everybody is connected without a new scan."""

from __future__ import annotations

from pathlib import Path

from support.system import System, wait_for

PHONES = ("972550000001", "972550000002")


def test_after_a_stop_and_a_kill_all_are_connected_without_a_scan(tmp_path: Path) -> None:
    with System(tmp_path, SIMULATOR_PROXIES=2) as system:
        sessions = [system.connected(phone) for phone in PHONES]
        homes = [system.session(s)["proxy"]["id"] for s in sessions]

        system.stop()
        system.start()
        for session_id in sessions:
            system.wait_status(session_id, "connected")
        pids = [system.worker_pid(s) for s in sessions]

        system.kill()
        system.start()
        assert [system.worker_pid(s) for s in sessions] == pids, "running workers are taken over, not touched"
        for session_id in sessions:
            system.wait_status(session_id, "connected")

        assert [system.session(s)["proxy"]["id"] for s in sessions] == homes
        assert all(len(system.events(s, "QR_CODE")) == 1 for s in sessions), "nobody scanned again"
        system.simulator.post(f"/phones/{PHONES[1]}/send", {"to": PHONES[0], "text": "still there?"})
        wait_for(lambda: system.events(sessions[0], "MESSAGE_RECEIVED"), what="a message after all that")
