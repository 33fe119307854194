"""Opt-out and opt-in words: is a whole message one of them, however it is written? Pure."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Literal

# longer messages are conversation: "please stop calling me in the morning" is for a person to read
_LONGEST = 60
LONGEST_REPLY = 1000

OPT_OUT_WORDS = (
    # English
    "stop", "stop all", "unsubscribe", "opt out", "optout", "remove me",
    # Hebrew: remove, remove me, to be removed, removal, stop
    "הסר", "הסירו", "הסר אותי", "הסירו אותי", "תסירו אותי", "להסיר", "להסרה", "הסרה",
    # Arabic: stop, cancel the subscription
    "توقف", "أوقف", "إيقاف", "إلغاء الاشتراك",
    # Russian
    "стоп", "отписаться", "отписка", "отпишите меня",
    # Spanish, Portuguese, French, German, Amharic
    "baja", "darme de baja", "sair", "descadastrar", "arret", "desabonner", "stopp", "abmelden", "አቁም",
)  # fmt: skip
OPT_IN_WORDS = (
    "start", "unstop", "subscribe", "opt in", "optin",
    "התחל", "הצטרף", "הצטרפות", "החזר", "החזירו אותי",
    "ابدأ", "اشتراك", "старт", "подписаться", "alta", "inscrever", "abonner", "anmelden", "ጀምር",
)  # fmt: skip


def normalised(text: str) -> str:
    """The bare words: no case, vowel points, accents, direction marks, punctuation, emoji or extra space."""
    bare: list[str] = []
    # twice: folding the case of one character may bring out another that decomposes
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    for character in decomposed:
        kind = unicodedata.category(character)
        # points, accents and invisible marks; an apostrophe or gershayim inside a word is simply not there
        if kind[0] == "M" or kind == "Cf" or character in _INSIDE_WORDS:
            continue
        bare.append(character if kind[0] in "LN" else " ")
    return " ".join("".join(bare).split())


_INSIDE_WORDS = frozenset("'’‘`´׳״\"")


class OptWords:
    def __init__(self, *, out: Iterable[str], in_: Iterable[str]) -> None:
        self._in = {normalised(word): word for word in in_}
        self._out = {normalised(word): word for word in out}

    def meaning(self, text: str) -> tuple[Literal["out", "in"], str] | None:
        """What the whole message means, and which of our words it is; None: it is no such word."""
        if len(text) > 4 * _LONGEST:
            return None
        bare = normalised(text)
        if not bare or len(bare) > _LONGEST:
            return None
        # should a word stand in both lists, no message is the safe side
        if bare in self._out:
            return "out", self._out[bare]
        return ("in", self._in[bare]) if bare in self._in else None
