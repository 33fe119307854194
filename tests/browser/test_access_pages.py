"""Keys and opt-outs on their pages: a key is shown once, what is done there happens."""

from __future__ import annotations

import pytest

from support.browser import Browser
from support.system import Refused, System, wait_for

FROM = '#suppression-list tr[data-key="{}"]'


def test_a_key_is_made_shown_once_switched_off_and_revoked(system: System, browser: Browser) -> None:
    browser.open("/keys")
    browser.one("#key-name").send_keys("shop")
    browser.click('input[name="rights"][value="send"]')
    browser.one("#key-sessions").send_keys("worker_7, worker_8")
    browser.click("#new-key button.main")
    browser.wait_shown("#shown-key")
    key = browser.one("#secret").get_attribute("value") or ""
    assert key.startswith("wak_")
    browser.wait_text("#key-list", "shop", "send", "worker_7", "worker_8", "On")
    [made] = system.api.get("/api/v1/keys")["keys"]
    own = system.api.call("GET", "/api/v1/keys/self", X_Api_Key=key)
    assert (own["by"], own["sessions"]) == ("shop", ["worker_7", "worker_8"])

    browser.click("[data-switch]")
    browser.wait_text("#key-list", "Off")
    with pytest.raises(Refused) as refused:
        system.api.call("GET", "/api/v1/keys/self", X_Api_Key=key)
    assert refused.value.code == "KEY_DISABLED"
    browser.click("[data-switch]")
    browser.wait_text("#key-list", "On")
    browser.click("[data-rotate]")
    browser.confirm()
    wait_for(lambda: (browser.one("#secret").get_attribute("value") or "") not in {"", key}, what="another key")
    browser.open("/keys")
    assert key not in browser.driver.page_source
    browser.click(f'[data-call="DELETE /api/v1/keys/{made["id"]}"]')
    browser.confirm()
    browser.wait_text("#key-list", "No keys yet")
    browser.open("/audit")
    browser.wait_text("#audit-list", "DELETE /keys/{key_id}", "POST /keys", "shop", "dashboard")
    assert browser.complaints() == []


def test_a_number_is_looked_up_put_on_the_list_and_taken_off(system: System, browser: Browser) -> None:
    phone = "972559990001"
    browser.open("/suppression")
    browser.one("#phone").send_keys(phone)
    browser.one("#note").send_keys("called us")
    browser.click("#suppress button.main")
    browser.wait_text(FROM.format(phone), "called us")
    assert system.api.get(f"/api/v1/suppression/{phone}")["source"] == "hand"
    browser.click(FROM.format(phone) + " a")
    browser.wait_text("#recipient", "Must not be written to")
    browser.one("#lines").send_keys("972559990002\nnonsense")
    browser.click("#suppress-many button")
    browser.wait_text("#import-result", "1 added", "Line 2")
    browser.click(FROM.format(phone) + " button")
    browser.confirm()
    wait_for(lambda: not browser.all(FROM.format(phone)), what="the row to go")
    browser.wait_text("#recipient", "May be written to")
    system.api.call("DELETE", "/api/v1/suppression/972559990002")
    assert browser.complaints() == []
