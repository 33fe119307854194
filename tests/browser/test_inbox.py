"""The inbox of a session: what people write appears by itself, and an answer goes out."""

from __future__ import annotations

from support.browser import Browser
from support.system import System, wait_for


def test_a_conversation_is_read_and_answered(system: System, browser: Browser, phone: str) -> None:
    other = "972529876543"
    session_id = system.connected(phone, label="Shop")
    system.unpaced(session_id)
    system.simulator.post("/phones", {"phone": other})
    browser.open(f"/sessions/{session_id}/inbox")
    system.simulator.post(f"/phones/{other}/send", {"to": phone, "text": "is it open today?"})
    browser.wait_text("#chats", "is it open today?", "1 new")
    browser.click("#chats a")
    browser.wait_text("#talk .said", "is it open today?")
    browser.mark()
    browser.one("#reply-text").send_keys("until six")
    browser.click("#reply button")
    browser.wait_text("#talk .said", "until six", "Delivered")
    assert browser.one("#reply-text").get_attribute("value") == ""
    wait_for(lambda: system.inbox(other), what="the answer on the phone")
    assert [entry["text"] for entry in system.inbox(other)] == ["until six"]
    assert "new" not in browser.text("#chats")
    system.simulator.post(f"/phones/{other}/send", {"to": phone, "text": "thanks"})
    browser.wait_text("#talk .said", "thanks")
    assert browser.same_visit
    assert browser.complaints() == []
    browser.picture("inbox")
