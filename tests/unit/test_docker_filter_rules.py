"""What the Docker filter lets through: what the runner asks for, and nothing else, however it is put."""

from __future__ import annotations

import copy
import json
from pathlib import PurePosixPath
from typing import Any

import pytest

from wa_orchestrator.runners.docker_container import ContainerRules, container_config, filters_for
from wa_orchestrator.runners.docker_filter_rules import Allowed, FilterRules, NotAllowed, is_worker, judge
from wa_orchestrator.runners.port import WorkerSpec

SESSIONS = PurePosixPath("/srv/wa/sessions")
RULES = FilterRules(image="worker:1", network="wa-workers", host_sessions_path=SESSIONS)
OURS = json.dumps(filters_for("abc"))


def config(**spec: Any) -> dict[str, Any]:
    """As the runner makes it."""
    rules = ContainerRules(
        installation="abc", image="worker:1", network="wa-workers", host_sessions_path=SESSIONS, user="1000:1000",
        memory_mb=256, cpus=0.5, pids=64, log_bytes=1 << 20,
    )  # fmt: skip
    worker = WorkerSpec(
        session_id="worker_1", run_order=1, proxy_id="px_1", proxy_url="socks5h://p:1",
        webhook_url="http://172.29.0.3:3000/api/webhook", webhook_secret="s", **spec,
    )  # fmt: skip
    return container_config(worker, rules)


def create(
    body: dict[str, Any], *, name: str = "wa_session_worker_1", path: str = "/v1.41/containers/create"
) -> Allowed:
    return judge("POST", path, {"name": name}, json.dumps(body).encode(), RULES)


def changed(**changes: Any) -> dict[str, Any]:
    """`HostConfig__Privileged=True` sets that field."""
    body = copy.deepcopy(config())
    for path, value in changes.items():
        *parents, last = path.split("__")
        place = body
        for parent in parents:
            place = place[parent]
        place[last] = value
    return body


# ------------------------------------------------------------------------------------------------- let through
def test_the_runners_own_container_is_let_through_unchanged() -> None:
    body = config(extra_env={"PING_INTERVAL_MS": "0", "NODE_EXTRA_CA_CERTS": "/app/sessions/worker_1/.ca.pem"})
    assert create(body).body == body


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("GET", "/version", {}),
        ("GET", "/v1.41/version", {}),
        ("GET", "/_ping", {}),
        ("GET", "/v1.45/containers/json", {"filters": OURS}),
        ("GET", "/v1.45/events", {"filters": OURS, "since": "1.0", "stream": "True"}),
        ("GET", "/v1.45/containers/wa_session_worker_1/json", {}),
        ("GET", "/v1.45/containers/0123abcd/logs", {"stdout": "1", "stderr": "1", "tail": "50"}),
        ("POST", "/v1.45/containers/0123abcd/start", {}),
        ("POST", "/v1.45/containers/0123abcd/stop", {"t": "10"}),
        ("POST", "/v1.45/containers/0123abcd/kill", {"signal": "SIGTERM"}),
        ("DELETE", "/v1.45/containers/0123abcd", {"force": "True", "v": "True"}),
    ],
)
def test_what_the_runner_asks_is_let_through(method: str, path: str, query: dict[str, str]) -> None:
    assert judge(method, path, query, b"", RULES).path == path


# ----------------------------------------------------------------------------------------------------- refused
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/info"),
        ("GET", "/images/json"),
        ("POST", "/images/create"),
        ("POST", "/build"),
        ("GET", "/volumes"),
        ("POST", "/networks/create"),
        ("POST", "/networks/bridge/connect"),
        ("GET", "/secrets"),
        ("POST", "/swarm/init"),
        ("POST", "/containers/wa_session_worker_1/exec"),
        ("POST", "/exec/1/start"),
        ("POST", "/containers/wa_session_worker_1/attach"),
        ("POST", "/containers/wa_session_worker_1/update"),
        ("POST", "/containers/wa_session_worker_1/rename"),
        ("POST", "/containers/wa_session_worker_1/pause"),
        ("GET", "/containers/wa_session_worker_1/archive"),
        ("PUT", "/containers/wa_session_worker_1/archive"),
        ("GET", "/containers/wa_session_worker_1/export"),
        ("POST", "/commit"),
        ("POST", "/containers/prune"),
        ("GET", "/containers/wa_session_worker_1/../../images/json"),
        ("GET", "/containers/wa_session_worker_1/json/"),
        ("GET", "//containers/json"),
        ("GET", "/v1.41/v1.41/version"),
        ("GET", "/v2/version"),
        ("POST", "/version"),
        ("CONNECT", "/version"),
    ],
)
def test_other_calls_are_refused(method: str, path: str) -> None:
    with pytest.raises(NotAllowed):
        judge(method, path, {}, b"", RULES)


@pytest.mark.parametrize(
    "filters",
    ["", "{}", "[]", "null", "nonsense", '{"label":[]}', '{"label":["other=1"]}',
     '{"label":"wa-orchestrator.installation=x"}', '{"name":["redis"]}',
     '{"Label":["wa-orchestrator.installation=x"]}'],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/containers/json", "/events"])
def test_others_containers_are_not_listed(path: str, filters: str) -> None:
    with pytest.raises(NotAllowed, match="label"):
        judge("GET", path, {"filters": filters}, b"", RULES)


@pytest.mark.parametrize(
    "changes",
    [
        {"Image": "alpine"},
        {"User": "0:0"},
        {"User": ""},
        {"User": "root"},
        {"User": "1000:0"},
        {"User": "1000"},
        {"Cmd": ["sh"]},
        {"Entrypoint": ["sh"]},
        {"entrypoint": ["sh"]},  # the engine reads names in any case
        {"Healthcheck": {"Test": ["CMD", "sh"]}},
        {"NetworkingConfig": {}},
        {"Env": ["NODE_OPTIONS=--require=/app/sessions/worker_1/x.js"]},
        {"Env": ["LD_PRELOAD=/app/sessions/worker_1/x.so"]},
        {"Env": ["PATH=/app/sessions/worker_1"]},
        {"Env": "SESSION_ID=x"},
        {"Labels": {}},
        {"Labels": None},
        {"StopSignal": "SIGUSR1"},
        {"HostConfig": None},
        {"HostConfig": []},
        {"hostconfig": {"Privileged": True}},
        {"HostConfig__Privileged": True},
        {"HostConfig__privileged": True},
        {"HostConfig__CapAdd": ["SYS_ADMIN"]},
        {"HostConfig__CapDrop": []},
        {"HostConfig__SecurityOpt": []},
        {"HostConfig__SecurityOpt": ["no-new-privileges:true", "seccomp=unconfined"]},
        {"HostConfig__PidMode": "host"},
        {"HostConfig__IpcMode": "host"},
        {"HostConfig__UTSMode": "host"},
        {"HostConfig__UsernsMode": "host"},
        {"HostConfig__CgroupParent": "/"},
        {"HostConfig__NetworkMode": "host"},
        {"HostConfig__NetworkMode": "bridge"},
        {"HostConfig__NetworkMode": "container:redis"},
        {"HostConfig__Devices": [{"PathOnHost": "/dev/sda"}]},
        {"HostConfig__DeviceCgroupRules": ["a *:* rwm"]},
        {"HostConfig__Binds": ["/:/host"]},
        {"HostConfig__Binds": []},
        {"HostConfig__Binds": ["/srv/wa/sessions/worker_1:/app/sessions/worker_1", "/:/host"]},
        {"HostConfig__Binds": ["/srv/wa/sessions/worker_2:/app/sessions/worker_1"]},
        {"HostConfig__Binds": ["/srv/wa/sessions/worker_1/../..:/app/sessions/worker_1"]},
        {"HostConfig__Mounts": [{"Type": "bind", "Source": "/", "Target": "/host"}]},
        {"HostConfig__VolumesFrom": ["redis"]},
        {"HostConfig__ReadonlyRootfs": False},
        {"HostConfig__ReadonlyRootfs": 1},
        {"HostConfig__Memory": 0},
        {"HostConfig__Memory": True},
        {"HostConfig__PidsLimit": -1},
        {"HostConfig__NanoCpus": 0},
        {"HostConfig__Tmpfs": {"/app": "exec"}},
        {"HostConfig__Runtime": "other"},
        {"HostConfig__Sysctls": {}},
        {"HostConfig__ExtraHosts": ["x:1.1.1.1"]},
        {"HostConfig__PortBindings": {}},
        {"HostConfig__Dns": ["8.8.8.8"]},
        {"HostConfig__RestartPolicy": {"Name": "always"}},
        {"HostConfig__LogConfig": {"Type": "syslog", "Config": {"syslog-address": "tcp://x"}}},
    ],
    ids=str,
)
def test_a_container_that_is_no_plain_worker_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(NotAllowed):
        create(changed(**changes))


@pytest.mark.parametrize("field", [*config(), *(f"HostConfig__{name}" for name in config()["HostConfig"])])
def test_no_field_may_be_left_out(field: str) -> None:
    body = config()
    *parents, last = field.split("__")
    del (body[parents[0]] if parents else body)[last]
    with pytest.raises(NotAllowed):
        create(body)


@pytest.mark.parametrize("name", ["", "redis", "wa_session_", "wa_session_../x", "x_wa_session_1", "wa_session_a b"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(NotAllowed, match="wa_session_"):
        create(config(), name=name)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"null", b'"x"'])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(NotAllowed):
        judge("POST", "/containers/create", {"name": "wa_session_x"}, body, RULES)


def test_a_start_cannot_bring_settings_along() -> None:
    with pytest.raises(NotAllowed, match="no body"):
        judge("POST", "/containers/abc/start", {}, b'{"Privileged":true}', RULES)


@pytest.mark.parametrize(
    ("method", "path", "query"),
    [
        ("POST", "/containers/create", {"name": "wa_session_x", "platform": "windows"}),
        ("POST", "/containers/abc/start", {"checkpoint": "x"}),
        ("DELETE", "/containers/abc", {"link": "1"}),
        ("POST", "/containers/abc/kill", {"signal": "SIGSTOP"}),
    ],
)
def test_other_parameters_are_refused(method: str, path: str, query: dict[str, str]) -> None:
    with pytest.raises(NotAllowed):
        judge(method, path, query, b"", RULES)


@pytest.mark.parametrize(
    ("name", "labels", "is_one"),
    [
        ("/wa_session_worker_1", {"wa-orchestrator.installation": "abc"}, True),
        ("/wa_session_worker_1", {}, False),
        ("/wa_session_worker_1", None, False),
        ("/redis", {"wa-orchestrator.installation": "abc"}, False),
    ],
)
def test_a_worker_is_known_by_name_and_label(name: str, labels: dict[str, str] | None, is_one: bool) -> None:
    assert is_worker({"Name": name, "Config": {"Labels": labels}}) is is_one
