"""The words of the pages, in Hebrew and English. A test keeps the two lists equal."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

LANGUAGES = {"en": "English", "he": "עברית"}
DIRECTIONS = {"en": "ltr", "he": "rtl"}
_FALLBACK = "en"


@cache
def translations(language: str) -> dict[str, str]:
    file = resources.files("wa_orchestrator.dashboard") / "translations" / f"{language}.json"
    found: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    return found


class Words:
    """One language: `t("nav.sessions")`, with values `t("table.of", total=5)`."""

    def __init__(self, language: str) -> None:
        self.language = language if language in LANGUAGES else _FALLBACK
        self.direction = DIRECTIONS[self.language]
        self._words = translations(self.language)

    def __call__(self, key: str, **values: object) -> str:
        return self._words[key].format(**values) if values else self._words[key]

    def known(self, key: str, otherwise: str) -> str:
        """For codes that come from elsewhere: the code's own words, else what came."""
        return self._words.get(key, otherwise)

    def reason(self, text: str) -> str:
        """A reason such as `NOT_ON_WHATSAPP` or `NOT_ON_WHATSAPP: the recipient …`: our own words for its code."""
        code = text.split(":", maxsplit=1)[0].strip().upper()
        return self.known(f"reason.{code}", text)

    def count(self, key: str, number: int) -> str:
        """`key.one` or `key.many`, with the number in it."""
        return self(f"{key}.one" if number == 1 else f"{key}.many", n=f"{number:,}")

    def starting_with(self, prefix: str) -> dict[str, str]:
        """All words of one kind, for the scripts of a page."""
        return {key.removeprefix(prefix): word for key, word in self._words.items() if key.startswith(prefix)}


def choose_language(chosen: str, accept_language: str) -> str:
    """What the person chose, else what the browser prefers, else English."""
    if chosen in LANGUAGES:
        return chosen
    ranked: list[tuple[float, int, str]] = []
    for place, part in enumerate(accept_language.split(",")[:20]):
        tag, _, weight = part.strip().partition(";q=")
        language = tag.split("-")[0].strip().lower()
        language = "he" if language == "iw" else language
        try:
            ranked.append((-float(weight or 1), place, language))
        except ValueError:
            continue
    return next((language for _, _, language in sorted(ranked) if language in LANGUAGES), _FALLBACK)
