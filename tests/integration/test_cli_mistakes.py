"""Typical mistakes against a running server: one sentence in an operator's words, and what to type instead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command_line import Run, command_line
from support.system import System


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("cli-mistakes"), simulate=False, WORKER_COMMAND="sleep 600") as system:
        yield system


@pytest.fixture
def run(served: System, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return command_line(served, monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["sessions", "show", "nobody"], "There is no session with this id. `wa-orchestrator sessions list` shows"),
        (["sessions", "list", "--status", "odd"], "--status: write pending, "),
        (["sessions", "create", "--proxy", "px_none"], "There is no proxy with this id. `wa-orchestrator proxies"),
        (["proxies", "remove", "px_none"], "There is no proxy with this id. `wa-orchestrator proxies list`"),
        (["messages", "show", "msg_none"], "There is no message with this id; ended ones are forgotten after a while."),
        (["messages", "list", "--status", "odd"], "--status is one of accepted, "),
        (["send", "972521111111", "Hi", "--session", "nobody"], "There is no session with this id. `wa-orch"),
        (["send", "972521111111", "Hi", "--expires", "2001-01-01T00:00"], "--expires: it must be later than now"),
        (["backups", "restore", "backup_none"], "There is no backup with this id. `wa-orchestrator backups list`"),
        (["backups", "delete", "backup_none"], "There is no backup with this id. `wa-orchestrator backups list`"),
        (["webhooks", "test", "odd"], "There is no webhook with this id. `wa-orchestrator webhooks list` shows them."),
        (["keys", "create", "shop", "--right", "fly"], "--right: write read, send, manage or admin."),
        (["keys", "revoke", "nobody"], "There is no key nobody. `wa-orchestrator keys list` shows them."),
        (["suppression", "add", "12"], "Write the recipient as a number in international form"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_that_names_the_command_that_helps(run: Run, words: list[str], sentence: str) -> None:
    result = run(*words)
    assert result.exit_code != 0
    assert result.stderr.startswith(sentence), result.stderr
    assert "/api/" not in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
