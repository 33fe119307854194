"""The words of alerts: both languages, readable, short enough, and never a secret."""

from __future__ import annotations

import string
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.alerts import OTHER_PROXY, PATIENCE, PROXY, entry
from wa_orchestrator.alerts import rules
from wa_orchestrator.alerts.desk import Desk
from wa_orchestrator.alerts.kinds import KINDS
from wa_orchestrator.alerts.notice import Notice, State
from wa_orchestrator.alerts.rules import REASONS, STOCKS, meaning_of
from wa_orchestrator.alerts.sender import message_of
from wa_orchestrator.alerts.telegram import LONGEST_MESSAGE
from wa_orchestrator.alerts.texts import Texts, utf16_length
from wa_orchestrator.alerts.words import WORDS
from wa_orchestrator.dashboard.words import LANGUAGES, translations

ENGLISH, HEBREW = Texts("en", "Asia/Jerusalem"), Texts("he", "Asia/Jerusalem")


def notice(kind: str, *subjects: str, state: State = "raised", count: int = 0, **facts: Any) -> Notice:
    return Notice(
        id="al_1_1", at=700_000, state=state, kind=kind, severity=KINDS[kind].severity, subjects=list(subjects),
        count=count or len(subjects), since=100_000, facts=facts,
    )  # fmt: skip


def test_both_languages_have_the_same_words_with_the_same_gaps() -> None:
    assert set(WORDS) == set(LANGUAGES)
    assert set(WORDS["en"]) == set(WORDS["he"])
    for key, text in WORDS["en"].items():
        gaps = [{name for _, name, _, _ in string.Formatter().parse(t) if name} for t in (text, WORDS["he"][key])]
        # "1 session" is said with a word in Hebrew
        assert gaps[0] == gaps[1], key


def test_every_reason_that_is_told_has_words() -> None:
    for language in LANGUAGES:
        missing = {code for code in REASONS if f"reason.{code}" not in translations(language)}
        assert not missing, language


def test_the_loss_of_a_proxy_reads_well() -> None:
    sessions = [f"session:worker_{n}" for n in range(12)]
    lost = notice("proxy_bad", f"proxy:{PROXY}", *sessions[:11], count=51, proxy=PROXY, moved=46, waiting=4, back=0,
                  why="refused")  # fmt: skip
    named = msgspec.structs.replace(
        lost, names={f"proxy:{PROXY}": "proxy.example:1080", "session:worker_3": "Sales (worker_3)"}
    )
    assert ENGLISH.plain(named) == (
        "🔥 Proxy proxy.example:1080 has failed: 46 sessions moved to other proxies, 4 sessions wait for a free proxy\n"
        "Reason: Nobody answers at this port.\n"
        "worker_0, worker_1, worker_2, Sales (worker_3), worker_4, worker_5, worker_6, worker_7, worker_8, "
        "worker_9 and 40 more"
    )
    assert "46 חיבורים הועברו" in HEBREW.plain(named)
    back = notice("failover", *sessions, state="resolved", count=46, proxy=PROXY)
    assert ENGLISH.title(back) == f"✅ 46 sessions are connected again, after proxy {PROXY} failed"


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (notice("connected", "session:worker_7", state="told"), "✅ worker_7 is connected"),
        (notice("disconnected", "session:worker_7", reason="CONNECTION_LOST"),
         "⚠️ worker_7 is not connected\nReason: connection lost"),
        (notice("disconnected", "session:worker_7", state="resolved"), "✅ worker_7 is connected again\nAfter 10 min"),
        (notice("logged_out", "session:worker_7", reason="LOGGED_OUT"),
         "⚠️ worker_7 was logged out\nReason: the device was removed on the phone\n"
         "To use it again: start it and scan a new code."),
        (notice("low_stock", "stock:freeSlots", count=1), "📉 Running low: free proxy slots: 0 left"),
        (notice("proxy_bad", f"proxy:{PROXY}", state="resolved"), f"✅ Proxy {PROXY} works again\nAfter 10 min"),
        (notice("exit_ip_changed", f"proxy:{PROXY}", state="told", was="203.0.113.7", now="203.0.113.8"),
         f"📍 Proxy {PROXY} leaves from another address than before\nIt was 203.0.113.7, now it is 203.0.113.8.\nAsk"),
        (notice("unhealthy", "session:a", "session:b", state="told", times=4, again=1),
         "🩺 2 sessions did not answer; their workers were restarted\nIt happened 4 more times; all is well now\na, b"),
        (notice("proxy_bad", f"proxy:{PROXY}", proxy=PROXY, moved=0, waiting=0, back=0, why="timeout"),
         f"🔥 Proxy {PROXY} has failed: no session was on it\nReason: It takes too long to answer."),
    ],
)  # fmt: skip
def test_alerts_in_words(found: Notice, words: str) -> None:
    assert ENGLISH.plain(found).startswith(words)


@pytest.mark.parametrize("state", ["raised", "told", "resolved"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_can_be_told_in_both_languages(kind: str, state: State) -> None:
    for subjects in (["session:a"], [f"session:worker_{n}" for n in range(12)]):
        for texts in (ENGLISH, HEBREW):
            assert texts.plain(notice(kind, *subjects, state=state))


def test_a_label_cannot_write_markup_or_lines() -> None:
    found = notice("connected", "session:a", state="told")
    found = msgspec.structs.replace(found, names={"session:a": "<b>x</b> & \n<a href='y'>z</a>"})
    assert ENGLISH.as_html(found) == "<b>✅ &lt;b&gt;x&lt;/b&gt; &amp;  &lt;a href='y'&gt;z&lt;/a&gt; is connected</b>"


def test_a_message_holds_as_many_as_fit_and_never_more() -> None:
    many = [notice("connected", *(f"session:{n}{'😀' * 60}" for n in range(12)), count=200)] * 30
    count, html, plain = message_of(many, ENGLISH, left_out=3)
    assert 1 < count < 30
    assert html.startswith("… 3 earlier alerts were left out")
    assert utf16_length(html) <= LONGEST_MESSAGE
    assert utf16_length(plain) <= LONGEST_MESSAGE


# nothing secret ----------------------------------------------------------------------------------------------------
_SECRET = "hunter2-p4ss"
_TYPES = sorted([*rules._RULES, "MESSAGE_RECEIVED", "DISCONNECTED", "PROXY_ERROR", "message.failed", "alert.raised"])
_value = st.one_of(
    st.sampled_from([
        _SECRET, f"socks5h://user:{_SECRET}@proxy.example:1080", f"the text {_SECRET}", _SECRET.upper(), PROXY,
        OTHER_PROXY, "connected", "reconnecting", "disconnected", "failed", "logged_out", "unhealthy", "pending",
        "PROXY_FAILED", "CRASH_LOOP", "REPLACED", "972500000001", *STOCKS, f"backup_{_SECRET}", f"wh_{_SECRET}",
        "backup_2026-11-15", "refused",
    ]),
    st.integers(), st.none(), st.booleans(), st.lists(st.just(_SECRET), max_size=2),
    st.dictionaries(st.just(_SECRET), st.just(_SECRET), max_size=1),
)  # fmt: skip
_names = st.sampled_from(["status", "reason", "from", "to", "proxy", "kind", "error", "stock", "count", "phone", "text",
                          "until", "sessions", "backup", "name", "id", "webhookId", "running", _SECRET])  # fmt: skip
_entries = st.lists(
    st.builds(
        lambda kind, session, data: entry(kind, session, **data),
        st.sampled_from(_TYPES),
        st.sampled_from(["", "worker_1", "worker_2", f"a:{_SECRET}", f"{_SECRET} {_SECRET}"]),
        st.dictionaries(_names, _value, max_size=8),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(_entries)
def test_no_alert_ever_holds_a_secret_or_a_message(entries: list[Any]) -> None:
    desk = Desk({}, PATIENCE)
    for number, found in enumerate(entries):
        if signal := meaning_of(found):
            desk.hear(signal, number * 40_000)
    desk.tick(10**9)
    written, _, notices = desk.take()
    kept = msgspec.json.encode([written, notices]).decode().lower()
    told = " ".join(f"{texts.plain(n)} {texts.as_html(n)}" for n in notices for texts in (ENGLISH, HEBREW)).lower()
    assert _SECRET not in kept
    assert _SECRET not in told
