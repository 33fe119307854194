"""What may be asked of the Docker engine: exactly what the Docker runner asks for its workers. Pure.

Access to the engine is as good as root on the machine. With these rules a control plane that was broken into can start
and stop worker containers, and no other container, image, folder or network is within reach.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from wa_orchestrator.runners.docker_container import INSTALLATION, NAME_PREFIX, SESSIONS_INSIDE

_VERSION = r"(?:/v1\.[0-9]{1,3})?"
_CONTAINER = r"/containers/(?P<container>[A-Za-z0-9][A-Za-z0-9_.-]{0,127})"
_SESSION_NAME = re.compile(rf"^{NAME_PREFIX}(?P<session>[A-Za-z0-9_-]{{1,64}})$")
_PLAIN_USER = re.compile(r"^[1-9][0-9]*:[1-9][0-9]*$")  # neither user nor group is root
_ENV = re.compile(r"^(?P<name>[A-Z][A-Z0-9_]*)=", re.ASCII)
# these would let a worker run another program than the image's
_ENV_REFUSED = re.compile(r"^(LD_.*|PATH|NODE_(?!EXTRA_CA_CERTS$).*|BASH_.*|ENV)$")
_SIGNALS = {"SIGTERM", "SIGKILL"}


@dataclass(frozen=True, kw_only=True)
class FilterRules:
    """What this installation's workers look like."""

    image: str
    network: str
    host_sessions_path: PurePosixPath


@dataclass(frozen=True)
class Allowed:
    """The request may be made, if `container` (when named) turns out to be a worker."""

    path: str
    container: str | None = None
    body: dict[str, Any] | None = None


class NotAllowed(Exception):
    """Says why."""


@dataclass(frozen=True)
class _Route:
    method: str
    path: re.Pattern[str]
    query: frozenset[str]
    check: Callable[[Mapping[str, str], Any, FilterRules], None] | None = None
    takes_body: bool = False


def _route(
    method: str,
    path: str,
    *query: str,
    check: Callable[[Mapping[str, str], Any, FilterRules], None] | None = None,
    takes_body: bool = False,
) -> _Route:
    return _Route(method, re.compile(rf"^{_VERSION}{path}$"), frozenset(query), check, takes_body)


def judge(method: str, path: str, query: Mapping[str, str], body: bytes, rules: FilterRules) -> Allowed:
    """What to pass on to the engine; raises NotAllowed."""
    for route in _ROUTES:
        found = route.path.match(path) if route.method == method else None
        if found is None:
            continue
        if unknown := query.keys() - route.query:
            raise NotAllowed(f"the parameter {min(unknown)} is not needed by workers")
        content = _content(body) if route.takes_body else None
        if body.strip() and not route.takes_body and body.strip() not in {b"{}", b"null"}:
            raise NotAllowed("this request has no body")
        if route.check:
            route.check(query, content, rules)
        return Allowed(path, found.groupdict().get("container"), content)
    raise NotAllowed("workers do not need this")


def is_worker(shown: Mapping[str, Any]) -> bool:
    """Whether an inspected container is one of ours."""
    labels: Mapping[str, str] = shown.get("Config", {}).get("Labels") or {}
    return INSTALLATION in labels and bool(_SESSION_NAME.match(str(shown.get("Name", "")).removeprefix("/")))


def _content(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise NotAllowed("the body must be a JSON object")
    return content


# what the questions must look like ------------------------------------------------------------------------------
def _only_workers(query: Mapping[str, str], _: Any, rules: FilterRules) -> None:
    """Lists and events show workers only."""
    try:
        labels = json.loads(query.get("filters", "")).get("label")
    except (ValueError, AttributeError):
        labels = None
    named = labels if isinstance(labels, list) else []
    if not any(isinstance(label, str) and label.startswith(f"{INSTALLATION}=") for label in named):
        raise NotAllowed(f"only containers with the label {INSTALLATION} may be asked for")


def _known_signal(query: Mapping[str, str], _: Any, rules: FilterRules) -> None:
    if query.get("signal", "SIGKILL") not in _SIGNALS:
        raise NotAllowed("workers are ended by SIGTERM and SIGKILL only")


def _is_a_worker(query: Mapping[str, str], content: Any, rules: FilterRules) -> None:
    name = _SESSION_NAME.match(query.get("name", ""))
    if name is None:
        raise NotAllowed(f"the name of a worker begins with {NAME_PREFIX}")
    session = name["session"]
    bind = f"{rules.host_sessions_path / session}:{SESSIONS_INSIDE}/{session}"
    _check(content, "", {
        "Image": _is(rules.image),
        "User": _matches(_PLAIN_USER),
        "Env": _harmless_env,
        "Labels": _our_labels,
        "StopSignal": _is("SIGTERM"),
        "HostConfig": _anything,
    })  # fmt: skip
    _check(content["HostConfig"], "HostConfig.", {
        "Binds": _is([bind]),
        "NetworkMode": _is(rules.network),
        "RestartPolicy": _is({"Name": "unless-stopped"}),
        "Memory": _positive,
        "MemorySwap": _positive,
        "NanoCpus": _positive,
        "PidsLimit": _positive,
        "CapDrop": _is(["ALL"]),
        "SecurityOpt": _is(["no-new-privileges:true"]),
        "ReadonlyRootfs": _is(True),
        "Tmpfs": lambda value: isinstance(value, dict) and value.keys() == {"/tmp"},  # noqa: S108
        "Init": _is(True),
        "Dns": _is(["127.0.0.1"]),
        "DnsOptions": _is(["timeout:1", "attempts:1"]),
        "LogConfig": lambda value: isinstance(value, dict) and value.get("Type") == "json-file"
        and isinstance(value.get("Config"), dict) and value["Config"].keys() == {"max-size", "max-file"},
    })  # fmt: skip


def _check(content: Any, where: str, rules: Mapping[str, Callable[[Any], bool]]) -> None:
    """Every field is known, there and as it should be. What is not named here cannot be asked for."""
    if not isinstance(content, dict):
        raise NotAllowed(f"{where.rstrip('.')} must be an object")
    if unknown := content.keys() - rules.keys():
        raise NotAllowed(f"{where}{min(unknown)} is not part of a worker")
    for name, fits in rules.items():
        if name not in content or not fits(content[name]):
            raise NotAllowed(f"{where}{name} is not as a worker has it")


def _is(wanted: object) -> Callable[[Any], bool]:
    # 1 == True in Python, not for the engine
    return lambda value: type(value) is type(wanted) and value == wanted


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and bool(pattern.match(value))


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _anything(_: Any) -> bool:
    return True


def _harmless_env(value: Any) -> bool:
    if not isinstance(value, list):
        return False
    names = [_ENV.match(entry) if isinstance(entry, str) else None for entry in value]
    return all(name is not None and not _ENV_REFUSED.match(name["name"]) for name in names)


def _our_labels(value: Any) -> bool:
    return isinstance(value, dict) and INSTALLATION in value and all(isinstance(v, str) for v in value.values())


_ROUTES = (
    _route("GET", "/_ping"),
    _route("HEAD", "/_ping"),
    _route("GET", "/version"),
    _route("GET", "/containers/json", "filters", "all", check=_only_workers),
    _route("GET", "/events", "filters", "since", "until", "stream", check=_only_workers),
    _route("POST", "/containers/create", "name", check=_is_a_worker, takes_body=True),
    _route("GET", rf"{_CONTAINER}/json"),
    _route("GET", rf"{_CONTAINER}/logs", "stdout", "stderr", "tail", "since", "follow", "timestamps"),
    _route("POST", rf"{_CONTAINER}/start"),
    _route("POST", rf"{_CONTAINER}/stop", "t"),
    _route("POST", rf"{_CONTAINER}/kill", "signal", check=_known_signal),
    _route("DELETE", _CONTAINER, "force", "v"),
)
