"""All checks, in the order in which an operator would look."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from wa_orchestrator.doctor import machine, network, store, workers
from wa_orchestrator.doctor.alerts import alerts
from wa_orchestrator.doctor.finding import Finding
from wa_orchestrator.doctor.key import api_key
from wa_orchestrator.doctor.patient import Patient, admit
from wa_orchestrator.doctor.proxies import probe_all, proxies

CHECKS: tuple[Callable[[Patient], Finding], ...] = (
    machine.python,
    machine.settings,
    machine.time_zone,
    machine.backup_time,
    machine.data_folder,
    machine.other_folders,
    machine.free_space,
    machine.secrets_file,
    machine.file_handles,
    store.store,
    network.port,
    api_key,
    workers.node,
    workers.worker_build,
    workers.docker,
    proxies,
    alerts,
)


def examine(environ: Mapping[str, str], *, data_dir: str | None = None, probe_proxies: bool = False) -> list[Finding]:
    """Runs every check; nothing is changed, and nothing but the named servers is contacted."""
    patient = admit(environ, data_dir=data_dir)
    findings = [check(patient) for check in CHECKS]
    return findings + (probe_all(patient) if probe_proxies else [])
