"""The words of the pages: both languages have all of them, and no page uses one that is missing."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest

from wa_orchestrator import errors
from wa_orchestrator.dashboard import rendering
from wa_orchestrator.dashboard.words import LANGUAGES, Words, choose_language, translations
from wa_orchestrator.model.session import Status

_USED = re.compile(r"""\bt\(\s*["']([a-z_A-Z.]+)["']\s*[,)]""")
_COUNTED = re.compile(r"""\bt\.count\(\s*["']([a-z_A-Z.]+)["']""")
_SAID = re.compile(r"""\bsay\(\s*["']([a-z_A-Z.]+)["']""")


def _texts(folder: Path, suffix: str) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted(folder.rglob(f"*{suffix}")))


def test_both_languages_have_the_same_words() -> None:
    english, hebrew = translations("en"), translations("he")
    assert set(english) == set(hebrew)
    for key, text in english.items():
        wanted = {name for _, name, _, _ in string.Formatter().parse(text) if name}
        given = {name for _, name, _, _ in string.Formatter().parse(hebrew[key]) if name}
        assert wanted == given, key


def test_no_page_uses_a_word_that_is_missing() -> None:
    templates = _texts(rendering.HERE / "templates", ".html")
    used = set(_USED.findall(templates))
    used |= {f"{key}.{number}" for key in _COUNTED.findall(templates) for number in ("one", "many")}
    used |= {f"js.{key}" for key in _SAID.findall(_texts(rendering.STATIC, ".js"))}
    used |= {f"status.{status}" for status in Status}
    assert len(used) > 200
    assert used <= set(translations("en")), used - set(translations("en"))


def test_words_for_errors_belong_to_real_codes() -> None:
    codes = {key.removeprefix("errors.") for key in translations("en") if key.startswith("errors.")}
    assert codes <= set(errors.by_code())


@pytest.mark.parametrize(
    ("chosen", "accepted", "language"),
    [
        ("he", "en", "he"),
        ("", "he-IL,he;q=0.9,en;q=0.8", "he"),
        ("", "iw", "he"),
        ("", "fr, de;q=0.9", "en"),
        ("", "fr;q=0.9, en;q=0.2, he;q=0.5", "he"),
        ("klingon", "", "en"),
        ("", "he;q=lots", "en"),
        ("", "en;q=0.1," * 500, "en"),
    ],
)
def test_the_language_is_the_chosen_one_else_the_browsers(chosen: str, accepted: str, language: str) -> None:
    assert choose_language(chosen, accepted) == language
    assert language in LANGUAGES


def test_a_reason_is_told_by_its_code() -> None:
    words = Words("en")
    assert words.reason("NOT_ON_WHATSAPP: the recipient is not on WhatsApp") == words("reason.NOT_ON_WHATSAPP")
    assert words.reason("SOMETHING_NEW") == "SOMETHING_NEW"


def test_counts_agree_with_their_number() -> None:
    words = Words("en")
    assert words.count("scan.free", 1) == "1 free slot"
    assert words.count("scan.free", 1200) == "1,200 free slots"


def test_every_reason_to_wait_has_words() -> None:
    source = Path(errors.__file__).parent
    codes = set(re.findall(r'"([A-Z]{2,}(?:_[A-Z]+)*)"', (source / "gateway" / "story.py").read_text()))
    codes |= set(re.findall(r'_later\(job, "([A-Z_]+)"', (source / "dispatcher" / "router.py").read_text()))
    assert {"PACING", "NO_SESSION_CONNECTED", "RETRYING"} <= codes
    missing = {name for name in codes if f"waiting.{name}" not in translations("he")}
    assert not missing, missing
