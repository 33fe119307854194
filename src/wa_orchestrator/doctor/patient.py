"""The settings under examination: a wrong one is noted and its default taken, so that all else can be checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.settings import Settings, described_settings, load_settings


@dataclass(frozen=True)
class Patient:
    environ: Mapping[str, str]
    settings: Settings
    wrong: Mapping[str, str]  # environment name → the sentence of its error


def admit(environ: Mapping[str, str], *, data_dir: str | None = None) -> Patient:
    wrong: dict[str, str] = {}
    for _, name, _, _ in described_settings():
        if name in environ:
            try:
                load_settings({name: environ[name]})
            except SettingsError as error:
                wrong[name] = str(error)
    usable = {name: value for name, value in environ.items() if name not in wrong}
    return Patient(environ=environ, settings=load_settings(usable, data_dir=data_dir), wrong=wrong)
