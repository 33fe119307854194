"""Create → code → scanned → connected, without a reload."""

from __future__ import annotations

import pytest

from support.browser import PHONE, WIDE, Browser
from support.system import System, wait_for


def created(browser: Browser, *, label: str) -> str:
    """Fills in the form and returns the new session's id."""
    browser.open("/scan")
    browser.mark()
    browser.one("#label").send_keys(label)
    browser.click("#create button")
    wait_for(lambda: "session=" in browser.driver.current_url, what="the new session")
    return browser.driver.current_url.rpartition("=")[2]


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("language", ["en", "he"])
def test_a_new_number_is_scanned_and_turns_connected_without_a_reload(
    system: System, browser: Browser, phone: str, size: tuple[int, int], language: str
) -> None:
    browser.prefer(language=language)
    browser.size(size)
    session_id = created(browser, label="Front desk")
    image = browser.wait_shown("#qr")
    wait_for(lambda: browser.script("return arguments[0].naturalWidth", image) > 100, what="the picture of the code")
    assert any(digit.isdigit() for digit in browser.wait_text("#countdown")), "it says how long the code holds"
    browser.picture(f"scan-code-{language}-{size[0]}")
    system.scan(session_id, phone)
    browser.wait_shown("#done-phone")
    session = system.session(session_id)
    assert browser.text("#done-phone").replace("-", "").replace(" ", "") == f"+{phone}"
    assert browser.text("#done-proxy") == f"{session['proxy']['host']}:{session['proxy']['port']}"
    assert browser.same_visit
    browser.picture(f"scan-connected-{language}-{size[0]}")
    assert browser.complaints() == []


def test_a_pairing_code_links_too(system: System, browser: Browser, phone: str) -> None:
    session_id = created(browser, label="By code")
    system.simulator.post("/phones", {"phone": phone})
    browser.wait_shown("#qr")
    browser.click("#pairing summary")
    browser.one("#pair-phone").send_keys(phone)
    browser.click("#pair-form button")
    code = browser.wait_text("#pair-code").replace("-", "")
    assert len(code) == 8
    system.simulator.post(f"/phones/{phone}/pair-code", {"code": code})
    browser.wait_shown("#done-phone")
    assert system.session(session_id)["phone"] == phone
    assert browser.same_visit


def test_what_is_wrong_with_the_form_is_told(system: System, browser: Browser) -> None:
    browser.open("/scan")
    browser.one("#phone").send_keys("12")
    browser.click("#create button")
    assert "international" in browser.wait_text("#create .problem-text", "international")


def test_a_link_lets_its_owner_scan_and_do_nothing_else(system: System, browser: Browser, phone: str) -> None:
    session_id = created(browser, label="Owner")
    browser.wait_shown("#qr")
    browser.click("#share")
    link = wait_for(lambda: browser.one("#share-url").get_attribute("value"), what="the link")
    browser.forget_everything()
    browser.size(PHONE)
    browser.driver.get(str(link))
    browser.mark()
    image = browser.wait_shown("#qr")
    wait_for(lambda: browser.script("return arguments[0].naturalWidth", image) > 100, what="the picture of the code")
    browser.picture("scan-link")
    assert browser.accessibility_findings() == []
    for path in ("/", "/sessions/" + session_id, "/messages"):
        answer = browser.script("return fetch(arguments[0]).then(a => a.url)", path)
        assert "/sign-in" in answer, path
    for path in ("/api/sessions", "/api/v1/events/stream", f"/api/sessions/{session_id}", "/parts/sessions"):
        assert browser.script("return fetch(arguments[0]).then(a => a.status)", path) == 401, path
    system.scan(session_id, phone)
    browser.wait_shown("#done-phone")
    assert browser.same_visit
    assert system.session(session_id)["proxy"]["host"] not in browser.text("main")
    browser.driver.get(str(link)[:-2] + "zz")
    assert "no longer valid" in browser.text("h1") or "כבר לא" in browser.text("h1")
