"""Checks the configured proxies: whether they can be read and, if wanted, whether they work."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from wa_orchestrator.doctor.finding import Finding, bad, good, skipped
from wa_orchestrator.doctor.patient import Patient
from wa_orchestrator.doctor.store import proxies_in_store
from wa_orchestrator.errors import InvalidProxy
from wa_orchestrator.model.proxy import ProxyAddress, parse_proxy
from wa_orchestrator.proxies.loading import parse_lines
from wa_orchestrator.proxies.probe import probe
from wa_orchestrator.proxies.sources import HOW_TO_ADD

_AT_ONCE = 20


def proxies(patient: Patient) -> Finding:
    found, errors = _configured(patient)
    if errors:
        return bad("proxies", " ".join(errors), "Correct these entries.")
    if found:
        return good("proxies", f"{len(found)} configured.")
    kept = proxies_in_store(patient)
    if kept is None:
        return skipped("proxies", "None configured; those added by hand are in the store, which does not answer now.")
    if kept:
        return good("proxies", f"{kept} in the store.")
    return bad("proxies", "There are none, and without one no session can be made.", HOW_TO_ADD)


def probe_all(patient: Patient) -> list[Finding]:
    """One finding per configured proxy that can be read."""
    found, _ = _configured(patient)
    return asyncio.run(_probe_all(patient, found)) if found else []


def _configured(patient: Patient) -> tuple[list[ProxyAddress], list[str]]:
    found: dict[str, ProxyAddress] = {}
    errors: list[str] = []
    names = [name for name in patient.environ if re.fullmatch(r"PROXY_URL_[0-9]+", name)]
    for name in sorted(names, key=lambda name: int(name.rsplit("_", 1)[1])):
        if not patient.environ[name].strip():
            continue
        try:
            address = parse_proxy(patient.environ[name])
            found[address.proxy_id] = address
        except InvalidProxy as error:
            errors.append(f"{name}: {error.message}")
    in_file, file_errors = _from_file(patient)
    return list({**in_file, **found}.values()), errors + file_errors


def _from_file(patient: Patient) -> tuple[dict[str, ProxyAddress], list[str]]:
    if not patient.settings.proxy_file:
        return {}, []
    file = Path(patient.settings.proxy_file)
    try:
        parsed = parse_lines(file.read_text(encoding="utf-8"))
    except OSError as error:
        return {}, [f"PROXY_FILE {file} cannot be read: {error.strerror}."]
    except UnicodeError:
        return {}, [f"PROXY_FILE {file} is not UTF-8 text."]
    errors = [f"{file.name} line {error.line}: {error.message}" for error in parsed.errors]
    return {address.proxy_id: address for address in parsed.good}, errors


async def _probe_all(patient: Patient, found: list[ProxyAddress]) -> list[Finding]:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(address: ProxyAddress) -> Finding:
        async with turn:
            result = await probe(
                address,
                target=patient.settings.proxy_check_target,
                timeout_s=patient.settings.proxy_timeout_ms / 1000,
            )
        name = f"proxy {address.host}:{address.port}"
        return good(name, result.text) if result.ok else bad(name, result.text, "")

    return list(await asyncio.gather(*(one(address) for address in found)))
