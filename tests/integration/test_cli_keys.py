"""`wa-orchestrator keys` and `suppression` against a running server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from support.command_line import Run, command_line
from support.system import System


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    with System(tmp_path_factory.mktemp("cli-keys"), simulate=False, WORKER_COMMAND="sleep 600") as system:
        yield system


@pytest.fixture
def run(served: System, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    return command_line(served, monkeypatch, tmp_path)


def told(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_key_is_made_used_rotated_and_revoked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    made = run("keys", "create", "shop", "--right", "send", "--right", "read", "--session", "a", "--rate", "100",
               "--expires", "+30d", "--note", "web shop")  # fmt: skip
    assert made.exit_code == 0, made.output
    key = made.stdout.strip().splitlines()[0]
    assert key.startswith("wak_")
    listing = run("keys", "list")
    assert "shop" in listing.stdout
    assert "read, send" in listing.stdout
    assert key not in listing.stdout

    rotated = told(run("keys", "rotate", "shop", "--json"))
    assert rotated["key"] != key
    lines = told(run("keys", "audit", "--json", "--on", "shop"))["lines"]
    assert [line["what"] for line in lines] == ["POST /keys/{key_id}/rotate", "POST /keys"]
    assert "POST /keys" in run("keys", "audit").stdout

    with monkeypatch.context() as other:
        other.setenv("API_KEY", rotated["key"])
        refused = run("keys", "list", "--json")
        assert refused.exit_code == 1
        assert json.loads(refused.stdout)["error"]["code"] == "FORBIDDEN"
    assert run("keys", "revoke", "shop").stdout == "shop is revoked.\n"
    again = run("keys", "revoke", "shop", "--json")
    assert json.loads(again.stdout)["error"]["code"] == "KEY_NOT_FOUND"
    assert "No keys besides API_KEY" in run("keys", "list").stdout


def test_a_right_that_does_not_exist_is_told(run: Run) -> None:
    wrong = run("keys", "create", "x", "--right", "root", "--json")
    assert wrong.exit_code == 1
    assert json.loads(wrong.stdout)["error"]["code"] == "INVALID_BODY"


def test_numbers_are_added_imported_exported_explained_and_removed(run: Run, tmp_path: Path) -> None:
    added = run("suppression", "add", "972521111111", "--reason", "complaint")
    assert "is on the list now" in added.stdout
    assert "was on the list already" in run("suppression", "add", "972521111111").stdout
    file = tmp_path / "list.txt"
    file.write_text("972522222222, wrong number\nnonsense\n", encoding="utf-8")
    imported = run("suppression", "import", str(file))
    assert imported.exit_code == 1
    assert "1 added, 0 known already, 1 not understood" in imported.stdout
    assert "line 2" in imported.output
    stdin = told(run("suppression", "import", "-", "--json", input_="972523333333\n"))
    assert stdin["added"] == 1
    listing = run("suppression", "list")
    assert "3 in all" in listing.stdout
    exported = run("suppression", "export")
    assert sorted(line.split("\t")[0] for line in exported.stdout.splitlines()) == [
        "972521111111", "972522222222", "972523333333"]  # fmt: skip
    explained = run("suppression", "explain", "972521111111")
    assert "RECIPIENT_OPTED_OUT" in explained.stdout
    assert told(run("suppression", "explain", "972520000000", "--json"))["maySend"] is True
    for phone in ("972521111111", "972522222222", "972523333333"):
        assert "may get messages again" in run("suppression", "remove", phone).stdout
    gone = run("suppression", "remove", "972521111111", "--json")
    assert json.loads(gone.stdout)["error"]["code"] == "NOT_SUPPRESSED"
    assert run("suppression", "import", str(tmp_path / "missing.txt")).exit_code == 1
