"""Checks whether the server's port is free, or held by our own server."""

from __future__ import annotations

import errno
import http.client
import json
import socket
from typing import Any

from wa_orchestrator.doctor.finding import Finding, bad, good
from wa_orchestrator.doctor.patient import Patient

_TIMEOUT_S = 3.0


def port(patient: Patient) -> Finding:
    host, number = patient.settings.host, patient.settings.port
    if number == 0:
        return good("port", "ORCH_PORT=0: a free one is taken.")
    try:
        _try_to_listen(host, number)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return _who_is_it(host, number)
        return _not_ours_to_use(host, number, error)
    return good("port", f"{host}:{number} is free.")


def _try_to_listen(host: str, number: int) -> None:
    family, _, _, _, place = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        trial.bind(place)
        trial.listen(1)  # with SO_REUSEADDR only this says for certain that nobody else listens


def _who_is_it(host: str, number: int) -> Finding:
    health = _health(host, number)
    if health is None:
        return bad(
            "port",
            f"Another program listens at {host}:{number}.",
            "Stop that program, or set ORCH_PORT to a free port.",
        )
    return good("port", f"Our server {health['version']} runs at {host}:{number} ({health['status']}).")


def _health(host: str, number: int) -> dict[str, Any] | None:
    # a server that listens on every address is asked at home
    asked = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - compared, not bound
    connection = http.client.HTTPConnection(asked, number, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        answer = json.loads(connection.getresponse().read(65536))
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    ours = isinstance(answer, dict) and {"status", "version", "store"} <= answer.keys()
    return answer if ours else None


def _not_ours_to_use(host: str, number: int, error: OSError) -> Finding:
    if isinstance(error, PermissionError):
        text, fix = f"This user may not listen on port {number}.", "Set ORCH_PORT to 1024 or more."
    elif isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        text, fix = f"{host} is no address of this machine.", "Set ORCH_HOST to 127.0.0.1 or one of its addresses."
    else:
        text, fix = f"Nobody can listen at {host}:{number}: {error.strerror}.", "Correct ORCH_HOST and ORCH_PORT."
    return bad("port", text, fix)
