"""Opt-out words are found however they are written, and only when they are the whole message."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wa_orchestrator.errors import SettingsError
from wa_orchestrator.settings import load_settings
from wa_orchestrator.suppression.inbound import _who
from wa_orchestrator.suppression.words import OPT_IN_WORDS, OPT_OUT_WORDS, OptWords, normalised

WORDS = OptWords(out=OPT_OUT_WORDS, in_=OPT_IN_WORDS)
MARKS = tuple("\u200e\u200f\u202a\u202c\u2066\u2069\ufeff\u200d\ufe0f\u05b8\u05bc\u064e")
AROUND = (*" \n\t!.…?,*_~\u00a0״-()", "🙏", "🛑", "👍🏽", "❤️")


@pytest.mark.parametrize(
    "text",
    ["STOP", "stop", "Stop.", " *STOP* ", "S\u200fTOP", "ＳＴＯＰ", "STOP!!! 🛑🙏", "הסר", "הָסֵר",
     "\u200fהסר\u200f", "הסר!", "הסירו", "הסר  אותי", "Opt-out", "OPT OUT", "Arrêt", "ARRET", "СТОП", "إلغاء الاشتراك",
     "الغاء الاشتراك", "أَوْقِفْ", "stop️"],
)  # fmt: skip
def test_an_opt_out_is_heard(text: str) -> None:
    found = WORDS.meaning(text)
    assert found is not None, normalised(text)
    assert found[0] == "out"


@pytest.mark.parametrize("text", ["START", "start!", "התחל", "старт", "Opt in"])
def test_an_opt_in_is_heard(text: str) -> None:
    assert (WORDS.meaning(text) or ("",))[0] == "in"


@pytest.mark.parametrize(
    "text",
    ["", "   ", "🛑", "don't stop", "stop it please", "bus stop", "the stop",
     "הסר את זה מהרשימה בבקשה כי אני לא צריך", "לא להסיר",
     "start the car", "stop\nstart", "s", "1", "מתי תסירו?", "STOP " * 100],
)  # fmt: skip
def test_conversation_is_no_opt_out(text: str) -> None:
    assert WORDS.meaning(text) is None


@st.composite
def written_somehow(draw: st.DrawFn) -> tuple[str, str]:
    word = draw(st.sampled_from(OPT_OUT_WORDS))
    text = draw(st.sampled_from([word, word.upper(), word.title(), word.swapcase()]))
    text = unicodedata.normalize(draw(st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"])), text)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.sampled_from(MARKS)) + text[place:]
    some = st.lists(st.sampled_from(AROUND), max_size=4)
    before, after = draw(some), draw(some)
    return word, "".join(before) + text + "".join(after)


@given(written_somehow())
def test_every_word_is_heard_however_it_is_written(written: tuple[str, str]) -> None:
    word, text = written
    found = WORDS.meaning(text)
    assert found is not None
    assert (found[0], normalised(found[1])) == ("out", normalised(word))


@given(st.text(max_size=80))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = normalised(text)
    assert normalised(once) == once
    assert once == once.strip()


@given(st.sampled_from(OPT_OUT_WORDS), st.sampled_from(["please", "now", "למה", "нет", "1"]), st.booleans())
def test_a_word_within_a_sentence_is_not_heard(word: str, other: str, first: bool) -> None:
    assert WORDS.meaning(f"{other} {word}" if first else f"{word} {other}") is None


def test_the_lists_do_not_contradict_each_other() -> None:
    out, in_ = {normalised(w) for w in OPT_OUT_WORDS}, {normalised(w) for w in OPT_IN_WORDS}
    assert not out & in_
    assert "" not in out | in_


def test_words_are_a_setting_and_a_word_without_letters_is_refused() -> None:
    assert load_settings({"OPT_OUT_WORDS": "Enough, די"}).opt_out_words == ("Enough", "די")
    assert load_settings({"OPT_OUT_WORDS": "off"}).opt_out_words == ()
    assert load_settings({}).opt_out_words == OPT_OUT_WORDS
    assert load_settings({"OPT_OUT_WORDS": "standard, genug"}).opt_out_words == (*OPT_OUT_WORDS, "genug")
    with pytest.raises(SettingsError, match="OPT_OUT_WORDS"):
        load_settings({"OPT_OUT_WORDS": "stop, 🛑"})
    with pytest.raises(SettingsError, match="OPT_OUT_REPLY"):
        load_settings({"OPT_OUT_REPLY": "x" * 1001})


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"from": "972501234567"}, ("972501234567", "")),
        ({"from": "972501234567", "fromLid": "12345678@lid"}, ("972501234567", "12345678@lid")),
        ({"from": "12345678@lid"}, ("12345678@lid", "12345678@lid")),
        ({"from": "12345678:4@lid"}, ("12345678@lid", "12345678@lid")),
        ({"from": ""}, ("", "")),
        ({}, ("", "")),
        ({"from": "x' .. y"}, ("", "")),
        ({"from": 5}, ("", "")),
    ],
)
def test_the_sender_is_named_as_recipients_are(data: dict[str, object], expected: tuple[str, str]) -> None:
    assert _who(data) == expected
