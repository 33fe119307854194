"""Checks the API key that this user's commands would use, at the server they would ask."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from wa_orchestrator.doctor.finding import Finding, bad, good, skipped
from wa_orchestrator.doctor.patient import Patient

_TIMEOUT_S = 3.0


def api_key(patient: Patient) -> Finding:
    url, key = _server(patient), _key(patient)
    if not url or not key:
        return skipped("api key", "Not checked: no running server is known here." if key else "None is known here yet.")
    try:
        status, answer = _ask(url, key)
    except (OSError, http.client.HTTPException, ValueError):
        return skipped("api key", f"Not checked: nothing of ours answers at {url}.")
    if status in {401, 403}:
        return bad("api key", _sentence(answer), "Give a valid one in API_KEY or --api-key.")
    if status >= 400:
        return skipped("api key", f"Not checked: the server at {url} answered with status {status}.")
    return good("api key", f"Accepted by the server at {url}.")


def _server(patient: Patient) -> str:
    return patient.environ.get("ORCH_URL", "").strip() or _kept(patient, "server.json", "url")


def _key(patient: Patient) -> str:
    return patient.settings.api_key or _kept(patient, "secrets.json", "apiKey")


def _kept(patient: Patient, file: str, name: str) -> str:
    try:
        found = json.loads(patient.settings.data_path(file).read_text(encoding="utf-8"))
        return str(found[name])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _ask(url: str, key: str) -> tuple[int, Any]:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/api/v1/keys/self", headers={"X-Api-Key": key})
        response = connection.getresponse()
        return response.status, json.loads(response.read(65536))
    finally:
        connection.close()


def _sentence(answer: Any) -> str:
    try:
        return str(answer["error"]["message"])
    except (KeyError, TypeError):
        return "The server does not accept this API key."
