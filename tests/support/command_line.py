"""The command line as somebody uses it who runs a server: address and key come from the environment."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from support.system import System
from wa_orchestrator.cli import app

Run = Callable[..., Result]


def command_line(served: System, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Run:
    monkeypatch.setenv("ORCH_URL", served.ready["url"])
    monkeypatch.setenv("API_KEY", served.ready["apiKey"])
    monkeypatch.chdir(folder)

    def run(*words: str, input_: str | None = None) -> Result:
        return CliRunner().invoke(app, list(words), input=input_)

    return run
