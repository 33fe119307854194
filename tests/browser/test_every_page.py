"""Every page in both languages and themes: readable by everybody, to itself, and fitting a phone."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from support.browser import PHONE, WIDE, Browser
from support.system import System

PAGES = {
    "sessions": "/",
    "scan": "/scan?session={waiting}",
    "session": "/sessions/{linked}",
    "inbox": "/sessions/{linked}/inbox?chat=972550000000",
    "messages": "/messages",
    "message": "/messages/{message}",
    "proxies": "/proxies",
    "anti-ban": "/anti-ban",
    "limits": "/anti-ban/{linked}",
    "alerts": "/alerts",
    "backups": "/backups",
    "suppression": "/suppression?phone=972559999990",
    "webhooks": "/webhooks",
    "webhook": "/webhooks/{webhook}",
    "keys": "/keys",
    "audit": "/audit",
    "live-log": "/live-log",
    "check-up": "/check-up",
    "not-found": "/sessions/nobody",
}


@pytest.fixture(scope="module")
def scene(shared_system: System) -> Iterator[dict[str, str]]:
    """A little of everything: connected, waiting, stopped, logged out, messages that went and that failed."""
    system = shared_system
    names = ["Front desk", "Sales north", "משלוחים", "Support"]
    linked = [system.connected(f"97253{n:07}", label=name) for n, name in enumerate(names)]
    recipients = [f"97255{n:07}" for n in range(5)]
    for recipient in recipients:
        system.simulator.post("/phones", {"phone": recipient})
    system.unpaced(linked[0])
    for number in range(12):
        body = {"to": recipients[number % 5], "message": f"Your order {number} is ready", "sessionId": linked[0]}
        system.api.post("/api/v1/send", body)
    system.simulator.post(f"/phones/{recipients[0]}/send", {"to": "972530000000", "text": "שלום, when will it arrive?"})
    system.api.call("PUT", f"/api/anti-ban/sessions/{linked[1]}/limits", {"daily": 5, "hours": None})
    lost = system.api.post("/api/v1/send", {"to": "972559999999", "message": "?", "sessionId": linked[0]})
    system.api.post(f"/api/sessions/{linked[2]}/stop")
    system.simulator.post("/phones/972530000003/unlink")
    system.wait_status(linked[3], "logged_out")
    system.api.post("/api/v1/suppression", {"phone": "972559999990", "reason": "complaint", "note": "called us"})
    system.api.post("/api/v1/recipients/972559999990/consent", {"source": "web form", "note": "טופס באתר"})
    system.api.post("/api/v1/keys", {"name": "shop", "rights": ["send", "read"], "sessions": linked[:2]})
    system.api.post("/api/v1/backups/create")
    waiting = system.provision(label="New shop")
    system.qr(waiting)
    hook = system.api.post(
        "/api/v1/webhooks", {"url": "https://app.example/events", "types": ["proxy.*"], "label": "חנות"}
    )
    yield {"linked": linked[0], "waiting": waiting, "message": lost["messageId"], "webhook": hook["id"]}
    system.api.call("DELETE", f"/api/v1/webhooks/{hook['id']}")
    for session in system.api.get("/api/sessions?limit=1000")["sessions"]:
        system.api.call("DELETE", f"/api/sessions/{session['sessionId']}?forget=true")
    system.api.call("DELETE", "/api/v1/suppression/972559999990")
    for key in system.api.get("/api/v1/keys")["keys"]:
        system.api.call("DELETE", f"/api/v1/keys/{key['id']}")


@pytest.fixture
def visitor(scene: dict[str, str], shared_system: System, stranger: Browser) -> Browser:
    stranger.sign_in(shared_system.ready["apiKey"])
    stranger.wait_shown("#numbers")
    return stranger


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "he"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_accessible_to_itself_and_fits(
    visitor: Browser, scene: dict[str, str], page: str, size: tuple[int, int], language: str, theme: str
) -> None:
    visitor.prefer(language=language, theme=theme)
    visitor.size(size)
    visitor.complaints()
    visitor.requested_hosts()
    visitor.open(PAGES[page].format(**scene))
    visitor.wait_shown("h1")
    assert visitor.one("html").get_attribute("dir") == {"en": "ltr", "he": "rtl"}[language]
    visitor.picture(f"page-{page}-{language}-{theme}-{size[0]}")
    assert visitor.accessibility_findings() == []
    wider = visitor.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wider <= 0, "nothing sticks out sideways"
    assert visitor.requested_hosts() == {urlsplit(visitor.url).netloc}, "no external request"
    complaints = [c for c in visitor.complaints() if "404" not in c or page != "not-found"]
    assert complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "he"])
def test_the_door_is_accessible(stranger: Browser, language: str, theme: str) -> None:
    stranger.prefer(language=language, theme=theme)
    stranger.open("/sign-in")
    stranger.picture(f"page-sign-in-{language}-{theme}")
    assert stranger.accessibility_findings() == []


def test_a_session_can_be_reached_and_stopped_with_the_keyboard_alone(visitor: Browser, scene: dict[str, str]) -> None:
    visitor.open("/")
    summary = f'tr[data-key="{scene["linked"]}"] summary'
    visitor.script("document.querySelector(arguments[0]).focus()", summary)
    visitor.driver.switch_to.active_element.send_keys("\ue007")
    visitor.wait_shown(f'tr[data-key="{scene["linked"]}"] details[open] a')
    visitor.driver.switch_to.active_element.send_keys("\ue00c")
    assert not visitor.all("details.menu[open]"), "Escape closes the menu"
    assert visitor.script("return document.activeElement.tagName") == "SUMMARY", "and the focus is where it was"
