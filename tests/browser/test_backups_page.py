"""The page with backups: made with a click, restored after a question, asked twice when the sessions are newer."""

from __future__ import annotations

from support.browser import Browser
from support.system import System, wait_for


def test_a_backup_is_made_and_restored_from_the_page(browser: Browser, system: System, phone: str) -> None:
    session_id = system.connected(phone)
    browser.open("/backups")
    browser.wait_shown('[data-call="POST /api/v1/backups/create"]')
    browser.click('[data-call="POST /api/v1/backups/create"]')
    browser.wait_text("#backup-now", "Done")
    made = system.api.get("/api/v1/backups")["backups"][0]["id"]
    browser.wait_text("#backup-list", made)
    system.wait_status(session_id, "connected")

    browser.click(f'[data-call="POST /api/v1/backups/{made}/verify"]')
    browser.wait_text("#toasts", "Every byte")

    # its keys have changed since: asked a second time
    system.simulator.post("/phones", {"phone": "972559000099"})
    system.simulator.post("/phones/972559000099/send", {"to": phone, "text": "hello"})
    wait_for(lambda: system.events(session_id, "MESSAGE_RECEIVED"), what="the message")
    browser.click(f'[data-restore="{made}"]')
    browser.wait_text("#confirm-text", made)
    browser.confirm()
    browser.wait_text("#confirm-text", session_id)
    browser.confirm()
    browser.wait_text("#backup-now", "Restore", "Done")
    system.wait_status(session_id, "connected")

    # a session that is not in it, in the form
    browser.script("document.getElementById('restore-sessions').value = 'nobody'")
    browser.click("#restore button")
    browser.confirm()
    browser.wait_text("#restore .problem-text", "does not hold")

    browser.click(f'[data-call="DELETE /api/v1/backups/{made}"]')
    browser.confirm()
    browser.wait_text("#toasts", "deleted")
    assert made not in [b["id"] for b in system.api.get("/api/v1/backups")["backups"]]
