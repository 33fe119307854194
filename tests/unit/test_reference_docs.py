"""The documentation agrees with the code, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from wa_orchestrator import cli, errors
from wa_orchestrator.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")

_LINK = re.compile(r"\]\((?!https?://|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#{1,6} +(.+)$", re.MULTILINE)
_CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_ALARM = re.compile(r"log\.(?:warning|error|exception)\(\s*\"([a-z_]+)\"")


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub makes from a page's headings."""
    text = _CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in _HEADING.findall(text)}


def commands() -> set[str]:
    """Every command of the command line, as it is typed: `up`, `sessions create` …"""
    found = set()
    for name, listed in cli._COMMANDS.items():
        loaded = listed.load()
        below = getattr(loaded, "commands", {})
        found |= {f"{name} {one}" for one in below} or {name}
    return found


def alarms() -> set[str]:
    """Every event that the control plane logs as a warning or worse."""
    files = (ROOT / "src").rglob("*.py")
    return {event for file in files for event in _ALARM.findall(file.read_text(encoding="utf-8"))}


def test_reference_pages_are_made_from_the_present_code() -> None:
    script = ROOT / "scripts" / "make_reference.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    for path, anchor in _LINK.findall(_CODE_BLOCK.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{path} is linked but not there"
        if anchor:
            assert anchor in anchors(target), f"{path}#{anchor} is linked but has no heading"


def test_runbook_has_a_section_for_every_error_code() -> None:
    missing = {code for code, kind in errors.by_code().items() if f"### `{code}` ({kind.status})" not in RUNBOOK}
    assert not missing, f"docs/runbook.md says nothing about {sorted(missing)}"


def test_runbook_has_a_section_for_every_alarming_log_line() -> None:
    missing = {event for event in alarms() if f"### `{event}`" not in RUNBOOK}
    assert not missing, f"docs/runbook.md says nothing about {sorted(missing)}"


def test_the_command_line_page_names_every_command() -> None:
    page = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    told = set(re.findall(r"`([a-z-]+(?: [a-z-]+)?)\b", page)) | set(re.findall(r"^## (.+)$", page, re.MULTILINE))
    missing = {command for command in commands() if not any(command in words.split(", ") for words in told)}
    assert not missing, f"docs/reference/cli.md says nothing about {sorted(missing)}"


def test_every_setting_is_read_by_somebody() -> None:
    files = [file for file in (ROOT / "src").rglob("*.py") if "doctor" not in file.parts]
    code = "\n".join(file.read_text(encoding="utf-8") for file in files)
    unread = {field.name for field in fields(Settings) if not re.search(rf"\.{field.name}\b", code)}
    assert not unread, f"nobody reads {sorted(unread)}"
