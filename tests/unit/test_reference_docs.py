"""The documentation agrees with the code, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from wa_orchestrator import errors

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
