"""Linking a phone with real Baileys: QR, code, binding, no second scan."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import redis

from support.system import Refused, System, wait_for
from wa_orchestrator.settings import load_settings
from wa_orchestrator.worker_program import worker_program


def test_a_scanned_session_is_connected_and_bound_through_its_proxy(system: System, phone: str) -> None:
    session_id = system.connected(phone)
    session = system.session(session_id)
    assert session["phone"] == phone
    assert session["fingerprint"]
    with redis.Redis.from_url(system.ready["redisUrl"], decode_responses=True) as store:
        assert store.get(f"phone:proxy:{phone}") == session["proxy"]["id"]
        assert store.smembers(f"phone:session:{phone}") == {session_id}
        assert store.exists(f"session:temp:{session_id}") == 0
    stats = system.simulator.get("/stats")
    proxy = next(p for p in stats["proxies"] if p["port"] == session["proxy"]["port"])
    asked = {request["host"] for request in proxy["hosts"]}
    assert asked == {"localhost"}, "the proxy was asked for the name, not for an address"


def test_the_exit_address_is_the_proxys_own(system: System, phone: str) -> None:
    session_id = system.connected(phone)
    (device,) = system.simulator.get(f"/phones/{phone}")["devices"]
    port = system.proxy_port(session_id)
    proxy = next(p for p in system.simulator.get("/stats")["proxies"] if p["port"] == port)
    assert device["remoteAddress"] == proxy["exitAddress"], "the server saw the proxy, not this machine's own address"


def test_a_restarted_session_needs_no_new_scan(system: System, phone: str) -> None:
    session_id = system.connected(phone)
    system.api.post(f"/api/sessions/{session_id}/restart")
    system.wait_status(session_id, "connected")
    system.api.post(f"/api/sessions/{session_id}/stop")
    assert system.session(session_id)["status"] == "stopped"
    system.api.post(f"/api/sessions/{session_id}/start")
    system.wait_status(session_id, "connected")
    assert not system.events(session_id, "QR_CODE")[1:], "only the first start showed a code"


def test_a_killed_worker_comes_back_connected(system: System, phone: str) -> None:
    session_id = system.connected(phone)
    before = system.worker_pid(session_id)
    os.kill(before, signal.SIGKILL)
    system.wait_new_worker(session_id, before)
    system.wait_status(session_id, "connected")


def test_a_second_scan_of_a_bound_phone_moves_to_its_own_proxy(system: System, phone: str) -> None:
    first = system.connected(phone)
    home = system.session(first)["proxy"]["id"]
    system.api.call("DELETE", f"/api/sessions/{first}")
    # the least loaded proxy is another one as long as somebody else is on the phone's own
    system.provision(proxy=home)
    second = system.provision()
    assert system.session(second)["proxy"]["id"] != home
    system.scan(second, phone)
    wait_for(lambda: system.session(second)["proxy"]["id"] == home, what="the move to the phone's own proxy")
    session = system.wait_status(second, "connected")
    assert session["proxy"]["id"] == home
    assert len({e["data"]["expiresAt"] for e in system.events(second, "QR_CODE")}) == 1, "no second scan"


def test_a_pairing_code_links_without_a_scan(system: System, phone: str) -> None:
    session_id = system.provision(phone=phone)
    system.qr(session_id)
    system.simulator.post("/phones", {"phone": phone})
    code = system.api.post(f"/api/sessions/{session_id}/pairing-code", {"phone": phone})["code"]
    system.simulator.post(f"/phones/{phone}/pair-code", {"code": code})
    assert system.wait_status(session_id, "connected")["phone"] == phone


def test_another_phone_than_provisioned_is_refused(system: System, phone: str, other_phone: str) -> None:
    session_id = system.provision(phone=phone)
    system.scan(session_id, other_phone)
    session = system.wait_status(session_id, "failed")
    assert session["reason"] == "WRONG_PHONE"
    assert session["proxy"] is None
    with redis.Redis.from_url(system.ready["redisUrl"], decode_responses=True) as store:
        assert store.get(f"phone:proxy:{other_phone}") is None


def test_an_unlinked_device_is_logged_out_and_shows_a_new_code_after_restart(system: System, phone: str) -> None:
    session_id = system.connected(phone)
    system.simulator.post(f"/phones/{phone}/unlink")
    assert system.wait_status(session_id, "logged_out")["reason"] == "LOGGED_OUT"
    folder = system.data / "sessions" / session_id
    wait_for(lambda: list(folder.glob("auth-logged-out-*")), what="the old credentials to be set aside")
    with pytest.raises(Refused):
        system.api.get(f"/api/sessions/{session_id}/qr")
    system.api.post(f"/api/sessions/{session_id}/restart")
    system.scan(session_id, phone)
    system.wait_status(session_id, "connected")


def test_logout_unlinks_at_whatsapp(system: System, phone: str) -> None:
    session_id = system.connected(phone)
    system.api.post(f"/api/sessions/{session_id}/logout")
    system.wait_status(session_id, "logged_out")
    assert system.simulator.get(f"/phones/{phone}")["devices"] == []


def test_the_same_credentials_elsewhere_end_the_session_without_a_fight(
    system: System, phone: str, tmp_path: Path
) -> None:
    session_id = system.connected(phone)
    elsewhere = tmp_path / "sessions"
    shutil.copytree(system.data / "sessions" / session_id, elsewhere / session_id)
    thief = start_worker_elsewhere(system, session_id, elsewhere, log=tmp_path / "thief.log")
    try:
        session = system.wait_status(session_id, "failed")
        assert session["reason"] == "REPLACED"
        logins = system.simulator.get("/stats")["logins"]
        time.sleep(3)  # long enough for several reconnects, were there any
        assert system.simulator.get("/stats")["logins"] == logins, "the loser does not log in again"
        assert system.session(session_id)["status"] == "failed"
    finally:
        thief.kill()
        thief.wait()


def start_worker_elsewhere(system: System, session_id: str, folder: Path, *, log: Path) -> subprocess.Popen[bytes]:
    """A second worker on a copy of the credentials, as if the folder had been restored on another server."""
    port = system.proxy_port(session_id)
    proxy = next(url for url in system.ready["simulator"]["proxies"] if url.endswith(f":{port}"))
    environ = Path(f"/proc/{system.worker_pid(session_id)}/environ").read_bytes().decode().split("\0")
    env = dict(entry.split("=", 1) for entry in environ if "=" in entry)
    env |= {"SESSIONS_DIR": str(folder), "PROXY_URL": proxy, "WEBHOOK_URL": "http://127.0.0.1:9/api/webhook"}
    program = worker_program(load_settings({}))
    with log.open("wb") as out:
        return subprocess.Popen(program.command, env=env, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
