"""Checks what runs the workers: Node and the built worker, or Docker."""

from __future__ import annotations

import http.client
import shlex
import shutil
import socket
import subprocess
from urllib.parse import urlsplit

from wa_orchestrator.doctor.finding import Finding, bad, good, skipped
from wa_orchestrator.doctor.patient import Patient
from wa_orchestrator.errors import SettingsError
from wa_orchestrator.worker_program import find_bundle, find_node

_OLDEST_NODE = 20
_DOCKER_TIMEOUT_S = 5.0


def node(patient: Patient) -> Finding:
    if patient.settings.runner == "docker":
        return skipped("node", "Not used: workers run in containers.")
    own_command = patient.settings.worker_command
    if own_command:
        return _own_command(own_command)
    fix = "Install Node 20 or newer, or run `make setup`."
    try:
        program = find_node()
    except SettingsError:
        return bad("node", "Node was not found.", fix)
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
        major = int(said.strip().removeprefix("v").split(".")[0])
    except (OSError, subprocess.SubprocessError, ValueError):
        return bad("node", f"{program} cannot be run.", fix)
    if major < _OLDEST_NODE:
        return bad("node", f"{program} is Node {said.strip()}.", fix)
    return good("node", f"Node {said.strip()} ({program})")


def worker_build(patient: Patient) -> Finding:
    if patient.settings.runner == "docker":
        return skipped("worker", f"Workers run from the image {patient.settings.worker_image}.")
    if patient.settings.worker_command:
        return skipped("worker", "WORKER_COMMAND is used instead of the built worker.")
    try:
        return good("worker", str(find_bundle("worker")))
    except SettingsError as error:
        return bad("worker", "There is no worker program.", str(error))


def docker(patient: Patient) -> Finding:
    if patient.environ.get("RUNNER", "").strip().lower() != "docker":
        return skipped("docker", "Not used (RUNNER is not docker).")
    place = patient.environ.get("DOCKER_HOST", "").strip() or "unix:///var/run/docker.sock"
    fix = "Start Docker, let this user use it (group docker), or correct DOCKER_HOST."
    try:
        if not _docker_answers(place):
            return bad("docker", f"What answers at {place} is not Docker.", fix)
    except (OSError, http.client.HTTPException, ValueError):
        return bad("docker", f"Docker does not answer at {place}.", fix)
    return good("docker", f"Docker answers at {place}.")


def _own_command(command: str) -> Finding:
    try:
        program = shlex.split(command)[0]
    except (ValueError, IndexError):
        return bad("node", "WORKER_COMMAND cannot be read.", "Check its quotes.")
    if shutil.which(program) is None:
        return bad("node", f"The program of WORKER_COMMAND, {program}, was not found.", "Correct WORKER_COMMAND.")
    return good("node", f"Workers run with WORKER_COMMAND ({program}).")


def _docker_answers(place: str) -> bool:
    parts = urlsplit(place)
    connection = http.client.HTTPConnection(
        parts.hostname or "localhost", parts.port or 2375, timeout=_DOCKER_TIMEOUT_S
    )
    if parts.scheme == "unix":
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(_DOCKER_TIMEOUT_S)
    try:
        if parts.scheme == "unix":
            connection.sock.connect(parts.path)
        connection.request("GET", "/_ping")
        return connection.getresponse().read(64) == b"OK"
    finally:
        connection.close()
