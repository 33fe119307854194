"""The documentation site builds without a warning, holds every page and asks nobody else for anything."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"(?:https?:)?//|<link\b[^>]*\bhref=\"(?:https?:)?//[^\"]*\.(?:css|js|woff2?)"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)]
    environ = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_every_page_is_there(site: Path) -> None:
    pages = [page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")]
    assert len(pages) > 30
    for page in pages:
        made = page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html")
        assert (site / made).is_file(), page


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not _FETCHED.search(page.read_text(encoding="utf-8")), page


def test_the_hebrew_page_reads_from_right_to_left(site: Path) -> None:
    text = (site / "docs" / "he" / "quick-start.html").read_text(encoding="utf-8")
    inside = text[text.index('<div dir="rtl">') :]
    assert "<h2" in inside, "its Markdown is read as such"
    assert "לנסות בלי טלפון" in inside
