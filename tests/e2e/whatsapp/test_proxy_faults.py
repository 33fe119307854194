"""A proxy that fails under a connected session: the right kind within seconds, failover, credentials untouched."""

from __future__ import annotations

import pytest

from support.system import System, wait_for


def _credentials(system: System, session_id: str) -> bool:
    return (system.data / "sessions" / session_id / "auth").is_dir()


@pytest.mark.parametrize(
    ("mode", "kind"), [("auth", "auth"), ("hang", "timeout"), ("drop", "protocol"), ("refuse", "refused")]
)
def test_each_fault_is_told_by_its_kind_and_the_session_moves(system: System, phone: str, mode: str, kind: str) -> None:
    session_id = system.connected(phone)
    port = system.proxy_port(session_id)
    # while the simulator swaps the proxy for a faulty one its port is closed for a moment: nobody should look then
    system.api.post(f"/api/sessions/{session_id}/stop")
    system.fault(proxyFault={"port": port, "mode": mode})
    system.api.post(f"/api/sessions/{session_id}/start")
    event = wait_for(lambda: system.events(session_id, "PROXY_ERROR"), what="PROXY_ERROR")[-1]
    assert event["data"]["kind"] == kind
    wait_for(lambda: system.session(session_id)["proxy"]["port"] != port, what="another proxy")
    system.wait_status(session_id, "connected")
    assert _credentials(system, session_id)
    assert len(system.events(session_id, "QR_CODE")) == 1


def test_a_dead_proxy_is_left_and_the_binding_goes_along(system: System, phone: str) -> None:
    session_id = system.connected(phone)
    before = system.session(session_id)["proxy"]
    system.fault(proxyDown=before["port"])
    wait_for(lambda: system.session(session_id)["proxy"]["id"] != before["id"], what="failover")
    system.wait_status(session_id, "connected")
    proxies = {p["id"]: p for p in system.api.get("/api/v1/proxies")["proxies"]}
    assert proxies[before["id"]]["status"] in {"bad", "testing"}
    assert proxies[before["id"]]["sessions"] == []
    assert proxies[before["id"]]["lastError"]["kind"] == "refused"


def test_a_proxy_that_comes_back_is_used_again(system: System, phone: str) -> None:
    session_id = system.connected(phone)
    proxy = system.session(session_id)["proxy"]
    system.fault(proxyDown=proxy["port"])
    wait_for(lambda: system.session(session_id)["proxy"]["id"] != proxy["id"], what="failover")
    system.fault(proxyUp=proxy["port"])
    checked = system.api.post(f"/api/v1/proxies/{proxy['id']}/check")
    assert checked["status"] == "active"
    assert checked["check"]["ok"]
