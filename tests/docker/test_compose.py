"""The Docker set-up as a whole: scripts, images, networks, and a system that heals itself."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from support.deployment import CONTROL_PLANE, RELAY, Deployment, install_compose
from support.docker_engine import Engine
from support.packets import Packet, counting
from support.system import Refused, wait_for

Timed = Callable[[str], AbstractContextManager[None]]


@pytest.fixture(scope="module")
def system(engine: Engine, timed: Timed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    if engine.docker("ps", "-aq", "--filter", "label=com.docker.compose.project=wa-orchestrator"):
        pytest.skip("A REAL INSTALLATION IS ON THIS ENGINE; it is not touched. Unset DOCKER_HOST for a private one.")
    install_compose(engine)
    deployment = Deployment(engine, tmp_path_factory.mktemp("compose"))
    try:
        with timed("scripts/setup.sh: both images"):
            deployment.prepare()
        with timed("simulated WhatsApp"):
            deployment.start_simulator()
        with timed("scripts/deploy.sh: healthy"):
            deployment.deploy()
        yield deployment
    except BaseException:
        print(deployment.logs())
        raise
    finally:
        deployment.down()


@pytest.fixture(scope="module")
def session(system: Deployment, timed: Timed) -> str:
    """Provisioned, scanned by a simulated phone, connected: with a worker of the real image."""
    with timed("provision → QR → scan → connected"):
        session_id = system.connected("972500000001")
    system.unpaced(session_id)
    system.simulator.post("/phones", {"phone": "972520000001"})
    return session_id


def send(system: Deployment, session_id: str, text: str) -> None:
    system.api.post("/api/v1/send", {"to": "972520000001", "message": text, "sessionId": session_id})


def wait_delivered(system: Deployment, *texts: str, timeout_s: float = 30.0) -> None:
    def look() -> bool:
        return set(texts) <= {message["text"] for message in system.inbox("972520000001")}

    wait_for(look, what=f"{len(texts)} messages to arrive", timeout_s=timeout_s)
    assert {message["copies"] for message in system.inbox("972520000001")} == {1}


def test_every_part_is_healthy_and_only_the_server_is_published(system: Deployment, engine: Engine) -> None:
    for service in ("redis", "orchestrator", "egress", "docker-filter"):
        shown = engine.inspect(system.container(service))
        assert shown["State"]["Health"]["Status"] == "healthy", service
        published = {port for port, places in (shown["NetworkSettings"]["Ports"] or {}).items() if places}
        assert published == ({"3000/tcp"} if service == "orchestrator" else set()), service
    mounts = engine.inspect(system.container("orchestrator"))["Mounts"]
    assert not [mount for mount in mounts if mount["Source"] == str(engine.socket)]


@pytest.mark.parametrize("service", ["orchestrator", "egress"])
def test_what_needs_the_internet_goes_out_by_the_open_network(system: Deployment, engine: Engine, service: str) -> None:
    routes = engine.docker("exec", system.container(service), "cat", "/proc/net/route").splitlines()
    gateways = [line.split()[2] for line in routes[1:] if line.split()[1] == "00000000"]
    assert gateways == ["01001CAC"]  # 172.28.0.1


def test_a_message_is_delivered_through_container_relay_and_proxy(system: Deployment, session: str) -> None:
    send(system, session, "first")
    wait_delivered(system, "first")


def test_the_worker_has_limits_and_no_rights_and_never_sees_the_proxys_password(
    system: Deployment, session: str
) -> None:
    shown = system.worker(session)
    host = shown["HostConfig"]
    assert (host["Memory"], host["PidsLimit"], host["CapDrop"]) == (256 << 20, 64, ["ALL"])
    assert host["ReadonlyRootfs"] is True
    assert shown["Config"]["User"] == "1000:1000"
    env = dict(entry.split("=", 1) for entry in shown["Config"]["Env"])
    assert env["PROXY_URL"].startswith(f"socks5h://{session}.px_")
    assert env["PROXY_URL"].endswith("@172.29.0.4:1080")
    assert "pass1" not in str(shown)
    assert env["WEBHOOK_URL"] == "http://172.29.0.3:3000/api/webhook"


def _unexpected(seen: dict[Packet, int]) -> dict[str, int]:
    """All but the neighbour look-ups for the two places a worker may reach."""
    neighbours = {RELAY[0], CONTROL_PLANE[0]}
    return {str(p): n for p, n in seen.items() if not (p.protocol == "arp" and p.address in neighbours)}


def test_no_packet_leaves_a_worker_but_to_relay_and_server(system: Deployment, session: str) -> None:
    pid = system.worker(session)["State"]["Pid"]
    with counting(Path(f"/proc/{pid}/ns/net"), allowed={RELAY, CONTROL_PLANE}) as packets:
        send(system, session, "counted")
        wait_delivered(system, "counted")
        image = {"image": {"base64": "iVBORw0KGgo=", "mimetype": "image/png"}, "caption": "a picture"}
        system.api.post("/api/v1/send", {"to": "972520000001", "message": image, "sessionId": session})
        wait_for(lambda: any(m["kind"] == "image" for m in system.inbox("972520000001")), what="the picture")
        # counted, not just looked for: pairing itself ends with a disconnect
        connections = len(system.events(session, "CONNECTED"))
        system.fault(drop="all")
        wait_for(lambda: len(system.events(session, "CONNECTED")) > connections, what="it to connect again")
        system.wait_status(session, "connected")
        send(system, session, "after the cut")
        wait_delivered(system, "after the cut")
        assert packets.allowed() > 50
        assert _unexpected(packets.others()) == {}
        print(packets.told())


def test_the_counter_would_see_more(system: Deployment, session: str, engine: Engine) -> None:
    """The proof of the proof: whatever another program tries is counted, and gets no further than this network."""
    pid = system.worker(session)["State"]["Pid"]
    with counting(Path(f"/proc/{pid}/ns/net"), allowed={RELAY, CONTROL_PLANE}) as packets:
        for place in (("192.0.2.1", "443"), ("172.29.0.4", "22"), ("172.29.77.77", "443")):
            engine.docker("exec", f"wa_session_{session}", "node", "-e", _TRY, *place)
        others = _unexpected({packet: n for packet, n in packets.others().items() if packet.interface != "lo"})
    # a packet for elsewhere ends as a question for the gateway, which does not exist
    assert set(others) == {"arp 172.29.0.1 by eth0", "tcp 172.29.0.4:22 by eth0", "arp 172.29.77.77 by eth0"}


def test_a_look_up_asks_nobody(system: Deployment, session: str, engine: Engine) -> None:
    pid = system.worker(session)["State"]["Pid"]
    with counting(Path(f"/proc/{pid}/ns/net"), allowed={RELAY, CONTROL_PLANE}) as packets:
        said = engine.docker("exec", f"wa_session_{session}", "node", "-e", _TRY, "web.whatsapp.com", "443")
        outside = {packet for packet in packets.others() if packet.interface != "lo" and packet.protocol != "arp"}
    assert said == "EAI_AGAIN"
    assert outside == set()


_TRY = """
const [host, port] = process.argv.slice(1);
const socket = require('net').connect({host, port: Number(port), timeout: 1500});
const end = what => { console.log(what); process.exit(0) };
socket.on('connect', () => end('connected')).on('error', e => end(e.code)).on('timeout', () => end('timeout'));
"""
_ELSEWHERE = {
    "the store": ("172.28.0.2", "6379"),
    "the server by its other address": ("172.28.0.3", "3000"),
    "the simulated WhatsApp": ("172.28.0.10", "7443"),
    "a proxy directly": ("172.28.0.10", "1080"),
    "the machine's address in the workers' network": ("172.29.0.1", "22"),
    "the machine's address in the other network": ("172.28.0.1", "22"),
    "the internet": ("192.0.2.1", "443"),
    "another port of the relay": ("172.29.0.4", "22"),
}


@pytest.mark.parametrize("place", _ELSEWHERE)
def test_a_worker_container_cannot_reach(system: Deployment, session: str, engine: Engine, place: str) -> None:
    """Not even with another program than the worker, which has a guard of its own."""
    said = engine.docker("exec", f"wa_session_{session}", "node", "-e", _TRY, *_ELSEWHERE[place])
    assert said in {"ENETUNREACH", "EHOSTUNREACH", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ENOTFOUND", "timeout"}
    if place != "another port of the relay":
        assert said != "ECONNREFUSED"


def test_what_a_worker_may_reach_it_reaches(session: str, engine: Engine, system: Deployment) -> None:
    for host, port in (RELAY, CONTROL_PLANE):
        assert engine.docker("exec", f"wa_session_{session}", "node", "-e", _TRY, host, str(port)) == "connected"


def test_a_killed_worker_is_connected_again_within_ten_seconds(
    system: Deployment, session: str, engine: Engine, timed: Timed
) -> None:
    before = system.worker(session)["Id"]
    connections = len(system.events(session, "CONNECTED"))
    with timed("docker kill of a worker → connected again"):
        began = time.monotonic()
        engine.docker("kill", before)
        wait_for(lambda: len(system.events(session, "CONNECTED")) > connections, what="it to be back", timeout_s=10)
        system.wait_status(session, "connected", timeout_s=5)
        assert time.monotonic() - began <= 10
    assert system.worker(session)["Id"] != before
    send(system, session, "after the kill")
    wait_delivered(system, "after the kill")


def _started(system: Deployment, session_id: str) -> tuple[str, str]:
    shown = system.worker(session_id)
    return shown["Id"], shown["State"]["StartedAt"]


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_the_server_goes_and_comes_and_no_worker_notices(
    system: Deployment, session: str, engine: Engine, how: str
) -> None:
    before = _started(system, session)
    server = system.container("orchestrator")
    texts = [f"{how} {n}" for n in range(10)]
    for text in texts[:5]:
        send(system, session, text)
    if how == "restart":
        engine.docker("restart", server)
    else:
        engine.docker("kill", server)
        engine.docker("start", server)
    system.wait_ready()
    for text in texts[5:]:
        send(system, session, text)
    wait_delivered(system, *texts)
    assert _started(system, session) == before
    assert system.session(session)["status"] == "connected"


@pytest.mark.parametrize("service", ["redis", "egress", "docker-filter"])
def test_a_part_is_restarted_and_all_goes_on(system: Deployment, session: str, engine: Engine, service: str) -> None:
    before = _started(system, session)
    send(system, session, f"before {service}")
    engine.docker("restart", "-t", "5", system.container(service))
    system.wait_ready()
    system.wait_status(session, "connected", timeout_s=40)
    send(system, session, f"after {service}")
    wait_delivered(system, f"before {service}", f"after {service}")
    if service != "egress":  # a worker that misses the relay for a moment may be restarted on its proxy
        assert _started(system, session) == before


@pytest.mark.parametrize("how", ["restarted", "killed", "restarted with all containers"])
def test_the_engine_is_restarted_while_messages_flow(
    system: Deployment, session: str, engine: Engine, timed: Timed, how: str
) -> None:
    if not engine.private:
        pytest.skip("the engine of DOCKER_HOST is not ours to restart")
    live_on = how != "restarted with all containers"
    if not live_on:
        _prepare_an_engine_that_ends_its_containers(system, session, engine)
    before = _started(system, session)
    texts = [f"engine {how} {n:02}" for n in range(30)]
    sender = threading.Thread(target=_send_all, args=(system, session, texts))
    sender.start()
    try:
        try:
            with timed(f"the engine is {how} → all connected again"):
                if how == "killed":
                    engine.kill()
                engine.restart(containers_live_on=live_on)
                system.wait_ready()
                system.wait_status(session, "connected", timeout_s=90)
        finally:
            sender.join()
        # a worker that ended with a message in hand: the next one gets it with its first claim
        wait_delivered(system, *texts, timeout_s=30 if live_on else 60)
        came = [message["text"] for message in system.inbox("972520000001") if message["text"] in texts]
        assert came == texts, "each once, in order"
        names = engine.docker("ps", "--filter", f"name=wa_session_{session}", "--format", "{{.Names}}").split()
        assert names == [f"wa_session_{session}"], "no worker runs twice"
        adopted = _started(system, session) == before
        assert adopted is live_on, "a worker whose container lives on is adopted"
    finally:
        if not live_on:  # as the other tests expect it
            engine.restart()
            system.wait_ready()
            _wait_settled(system, session)


def _wait_settled(system: Deployment, session_id: str) -> None:
    """Connected, and by the same container for a while: the engine and the server both bring workers back."""
    since: dict[str, Any] = {"worker": None, "at": 0.0}

    def settled() -> bool:
        connected = system.session(session_id)["status"] == "connected"
        worker = _started(system, session_id) if connected else None
        if worker is None or worker != since["worker"]:
            since.update(worker=worker, at=time.monotonic())
        return worker is not None and time.monotonic() - since["at"] > 8

    wait_for(settled, what="the worker to be settled", timeout_s=120, pause_s=0.5)


def _prepare_an_engine_that_ends_its_containers(system: Deployment, session_id: str, engine: Engine) -> None:
    """The change itself leaves containers stopped: deployed again they run under the new engine."""
    engine.restart(containers_live_on=False)
    system.compose("up", "-d", "--no-build", "simulator")
    system.deploy()
    system.wait_ready()
    system.wait_status(session_id, "connected", timeout_s=90)


def _send_all(system: Deployment, session_id: str, texts: list[str]) -> None:
    """One after the other, each until it is accepted: in the time without a server there is nobody to ask."""
    for text in texts:
        body = {"to": "972520000001", "message": text, "sessionId": session_id}

        def accepted(body: dict[str, str] = body) -> bool:
            try:
                system.api.post("/api/v1/send", body, Idempotency_Key=body["message"].replace(" ", "-"))
            except (OSError, Refused):
                return False
            return True

        wait_for(accepted, what="a message to be accepted", timeout_s=120, pause_s=0.2)
        time.sleep(0.2)


def test_a_second_deploy_restarts_no_worker(system: Deployment, session: str) -> None:
    before = _started(system, session)
    relay = system.container("egress")
    said = system.deploy()
    assert "is ready at http://127.0.0.1:" in said
    assert _started(system, session) == before
    assert system.container("egress") == relay


def test_a_deleted_session_leaves_no_container(system: Deployment, engine: Engine) -> None:
    session_id = system.provision()
    system.qr(session_id)
    system.api.call("DELETE", f"/api/sessions/{session_id}")
    wait_for(
        lambda: not engine.docker("ps", "-aq", "--filter", f"name=^wa_session_{session_id}$"), what="it to be gone"
    )


def test_up_simulate_works_inside_the_image(engine: Engine) -> None:
    name = "wa-test-simulate"
    engine.docker("run", "-d", "--rm", "--name", name, "whatsapp-orchestrator:1.0.0", "up", "--simulate")
    try:
        wait_for(
            lambda: engine.inspect(name)["State"]["Health"]["Status"] == "healthy",
            what="up --simulate to be healthy", timeout_s=60, pause_s=0.5,
        )  # fmt: skip
    finally:
        subprocess.run(["docker", "rm", "-f", name], env=engine.environ, check=False, capture_output=True)
