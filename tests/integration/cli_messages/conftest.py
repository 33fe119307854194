"""One server for all commands around messages; each test begins in an empty folder."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from support.command_server import Server, prepare, served
from wa_orchestrator.logs import configure_logs


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    configure_logs(level="error", stream=sys.__stderr__)  # the server's lines are not the command's
    with served(tmp_path_factory.mktemp("data")) as running:
        yield running
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        prepare(monkeypatch, tmp_path)
        yield
    time.tzset()
