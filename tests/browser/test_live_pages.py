"""Pages change by themselves while things happen, and what is done on them happens."""

from __future__ import annotations

import pytest

from support.browser import Browser
from support.system import System, wait_for

ROW = '#session-list tr[data-key="{}"]'


def test_the_list_follows_what_happens_without_a_reload(system: System, browser: Browser, phone: str) -> None:
    browser.open("/")
    browser.mark()
    session_id = system.provision(label="Shop")
    browser.wait_text(ROW.format(session_id), "Shop", "Ready to scan")
    system.scan(session_id, phone)
    browser.wait_text(ROW.format(session_id), "Connected")
    assert browser.text("#number-connected") == "1"
    system.api.call("DELETE", f"/api/sessions/{session_id}")
    wait_for(lambda: not browser.all(ROW.format(session_id)), what="the row to go")
    assert browser.same_visit
    assert browser.complaints() == []


def test_search_filter_and_sort_narrow_the_list(system: System, browser: Browser) -> None:
    north, south = system.provision(label="North"), system.provision(label="South")
    system.api.post(f"/api/sessions/{south}/stop")
    browser.open("/")
    browser.mark()
    browser.one("input[type=search]").send_keys("nor")
    wait_for(lambda: not browser.all(ROW.format(south)), what="only the one that fits")
    assert browser.all(ROW.format(north))
    browser.one("input[type=search]").send_keys("\b\b\b")
    browser.click('.pills label:has([value="stopped"])')
    wait_for(lambda: browser.all(ROW.format(south)) and not browser.all(ROW.format(north)), what="only stopped ones")
    browser.click('.pills label:has([value=""])')
    wait_for(lambda: len(browser.all("#session-list tbody tr")) == 2, what="both")
    browser.click("#session-list thead th:nth-child(2) a")
    wait_for(lambda: "South" in browser.text("#session-list tbody tr:first-child"), what="the other order")
    assert "sort=-name" in browser.driver.current_url
    assert browser.same_visit


def test_many_are_stopped_and_deleted_at_once_after_a_question(system: System, browser: Browser) -> None:
    ids = [system.provision(label=f"Many {n}") for n in range(3)]
    browser.open("/")
    browser.click("#pick-all")
    assert "3" in browser.wait_text("#bulk-count", "3")
    browser.click('[data-bulk="stop"]')
    assert "3" in browser.text("#confirm-text")
    browser.confirm()
    for session_id in ids:
        browser.wait_text(ROW.format(session_id), "Stopped")
    browser.click('[data-bulk="delete"]')
    browser.wait_shown("#confirm[open]")
    browser.click('#confirm button[value="cancel"]')
    assert len(system.api.get("/api/sessions")["sessions"]) == 3, "a question answered with no does nothing"
    browser.click('[data-bulk="delete"]')
    browser.confirm()
    wait_for(lambda: not system.api.get("/api/sessions")["sessions"], what="all to be gone")


def test_failover_is_seen_live(system: System, browser: Browser, phone: str) -> None:
    session_id = system.connected(phone, label="Sturdy")
    browser.open(f"/sessions/{session_id}")
    browser.mark()
    before = browser.wait_text("#session-proxy")
    system.fault(proxyDown=system.proxy_port(session_id))
    wait_for(lambda: browser.text("#session-proxy") not in {"", before}, what="another proxy on the page")
    browser.wait_text("#session .head .chip", "Connected", timeout_s=60)
    browser.wait_text("#session .timeline", "Moved from proxy", before)
    assert browser.same_visit
    browser.picture("failover")
    browser.open("/check-up")
    assert before in browser.wait_text("#check-up", before)


def test_a_session_is_restarted_stopped_started_and_deleted_from_its_page(
    system: System, browser: Browser, phone: str
) -> None:
    session_id = system.connected(phone)
    browser.open(f"/sessions/{session_id}")
    assert "started" in browser.wait_text("#log", "started"), "the worker's log is there"
    assert phone not in browser.text("#log"), "no whole number in the log"
    pid = system.worker_pid(session_id)
    browser.click(f'[data-call="POST /api/sessions/{session_id}/restart"]')
    browser.confirm()
    wait_for(lambda: system.worker_pid(session_id) != pid, what="a new worker")
    browser.wait_text("#session .head .chip", "Connected")
    browser.click(f'[data-call="POST /api/sessions/{session_id}/stop"]')
    browser.confirm()
    browser.wait_text("#session .head .chip", "Stopped")
    browser.click(f'[data-call="POST /api/sessions/{session_id}/start"]')
    browser.wait_text("#session .head .chip", "Connected")
    browser.click(f'[data-call="DELETE /api/sessions/{session_id}"]')
    browser.confirm()
    browser.wait_shown("#session-list")
    assert not system.api.get("/api/sessions")["sessions"]


def test_a_message_is_sent_and_its_way_watched(system: System, browser: Browser, phone: str, other_phone: str) -> None:
    session_id = system.connected(phone, label="Sender")
    system.unpaced(session_id)
    browser.open("/messages")
    browser.one("#to").send_keys(other_phone)
    browser.one("#text").send_keys("Hello from the page")
    browser.click("#send button")
    browser.wait_shown("#message-status")
    browser.mark()
    browser.wait_text("#message-status", "Delivered")
    assert browser.same_visit
    assert [m["text"] for m in system.inbox(other_phone)] == ["Hello from the page"]
    system.simulator.post(f"/phones/{other_phone}/read", {})
    browser.wait_text("#message-status", "Read")
    for step in ("Accepted", "Queued", "Sent", "Delivered", "Read"):
        assert step in browser.text(".story"), step
    browser.picture("message")


def test_a_waiting_message_says_why_and_can_be_cancelled(
    system: System, browser: Browser, phone: str, other_phone: str
) -> None:
    session_id = system.connected(phone)
    system.api.post(f"/api/sessions/{session_id}/stop")
    message = system.api.post("/api/v1/send", {"to": other_phone, "message": "later", "sessionId": session_id})
    browser.open(f"/messages/{message['messageId']}")
    browser.wait_text(".notice", "not connected")
    browser.click('[data-call$="/cancel"]')
    browser.wait_text("#message-status", "Cancelled")


def test_limits_are_changed_and_say_where_they_come_from(system: System, browser: Browser, phone: str) -> None:
    session_id = system.connected(phone, label="Careful")
    browser.open(f"/anti-ban/{session_id}")
    assert browser.wait_text("#effective-daily") == "20"
    browser.script(
        "const mode = document.querySelector('[name=\"daily.mode\"]'); mode.value = 'own';"
        "mode.dispatchEvent(new Event('change', {bubbles: true}));"
    )
    field = browser.wait_shown("#limit-daily")
    field.clear()
    field.send_keys("7")
    browser.click("form[data-limits] button.main")
    wait_for(lambda: browser.text("#effective-daily") == "7", what="the new limit")
    assert "set for this one" in browser.text("#limits-now")
    assert system.api.get(f"/api/anti-ban/sessions/{session_id}/limits")["effective"]["daily"] == 7
    browser.open("/")
    browser.wait_text(ROW.format(session_id), "/ 7")


def test_proxies_are_added_checked_and_removed(system: System, browser: Browser) -> None:
    browser.open("/proxies")
    browser.one("#proxy-url").send_keys("http://user:pass@proxy.example:1080")
    browser.click("#add-proxy button")
    browser.wait_text("#add-proxy .problem-text", "socks5h")
    browser.one("#lines").send_keys("127.0.0.1:9:someone:s3cret\nnonsense")
    browser.click("#import-proxies button")
    browser.wait_text("#import-result", "1 added", "Line 2")
    row = browser.wait_text("#proxy-list", "127.0.0.1:9")
    assert "s3cret" not in row
    proxy = next(p for p in system.api.get("/api/v1/proxies")["proxies"] if p["port"] == 9)
    browser.click(f'[data-call="POST /api/v1/proxies/{proxy["id"]}/check"]')
    browser.wait_text("#toasts", "does not work")
    browser.click(f'[data-call^="DELETE /api/v1/proxies/{proxy["id"]}"]')
    browser.confirm()
    wait_for(lambda: "127.0.0.1:9\n" not in browser.text("#proxy-list") + "\n", what="it to be gone")


def test_the_live_log_filters_and_pauses(system: System, browser: Browser) -> None:
    browser.open("/live-log")
    browser.mark()
    first = system.provision(label="Seen")
    browser.wait_text("#event-list", first, "Created on proxy")
    browser.click("#log-pause")
    second = system.provision(label="Missed")
    browser.wait_text("#log-missed", "new while paused")
    assert second not in browser.text("#event-list")
    browser.click("#log-pause")
    browser.wait_text("#event-list", second)
    browser.one("input[type=search]").send_keys(second)
    wait_for(lambda: first not in browser.text("#event-list") and second in browser.text("#event-list"),
             what="only the one")  # fmt: skip
    assert browser.same_visit


@pytest.mark.parametrize("path", ["/sessions/nobody", "/messages/nothing", "/anti-ban/nobody"])
def test_what_is_not_there_is_told_on_a_page(system: System, browser: Browser, path: str) -> None:
    browser.open(path)
    assert browser.text("h1") == "Not found"
