"""The door: who gets in, who does not, and what the cookie is like."""

from __future__ import annotations

import subprocess

from support.browser import Browser
from support.system import PROGRAM, System, wait_for


def test_a_wrong_key_is_told_and_lets_nobody_in(system: System, stranger: Browser) -> None:
    stranger.sign_in("wrong")
    assert "wrong" in stranger.wait_text("[role=alert]", "wrong")
    stranger.open("/")
    assert "/sign-in" in stranger.driver.current_url


def test_the_key_opens_and_signing_out_closes(system: System, stranger: Browser) -> None:
    stranger.open("/proxies")
    stranger.one("#password").send_keys(system.ready["apiKey"])
    stranger.one("main button.main").click()
    stranger.wait_shown("#proxy-list")
    assert stranger.driver.current_url.endswith("/proxies"), "it leads to where one wanted to go"
    cookie = stranger.driver.get_cookie("wa_sign_in")
    assert cookie
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Lax"
    assert system.ready["apiKey"] not in stranger.driver.page_source
    stranger.click(".who button")
    stranger.wait_shown("#password")
    stranger.driver.add_cookie({"name": "wa_sign_in", "value": cookie["value"], "path": "/"})
    stranger.open("/")
    assert "/sign-in" in stranger.driver.current_url, "a cookie that was signed out opens nothing"


def test_a_user_made_on_the_command_line_signs_in_until_removed(system: System, stranger: Browser) -> None:
    command = [str(PROGRAM), "--data-dir", str(system.data), "users"]
    subprocess.run([*command, "add", "dana", "--password-stdin"], input=b"a long password\n", check=True, timeout=60)
    stranger.sign_in("a long password", name="dana")
    assert "dana" in stranger.wait_text(".who", "dana")
    subprocess.run([*command, "remove", "dana"], check=True, timeout=60)
    stranger.open("/")
    wait_for(lambda: "/sign-in" in stranger.driver.current_url, what="the door")


def test_language_follows_the_choice_and_is_remembered(system: System, browser: Browser) -> None:
    browser.click('[data-language="he"]')
    wait_for(lambda: browser.one("html").get_attribute("dir") == "rtl", what="right to left")
    assert browser.text("h1") == "חיבורים"
    browser.open("/proxies")
    assert browser.one("html").get_attribute("lang") == "he"
    browser.click('[data-language="en"]')
    wait_for(lambda: browser.one("html").get_attribute("dir") == "ltr", what="left to right")


def test_colours_change_at_once_and_are_remembered(system: System, browser: Browser) -> None:
    light = browser.script("return getComputedStyle(document.body).backgroundColor")
    browser.click('[data-set-theme="dark"]')
    dark = browser.script("return getComputedStyle(document.body).backgroundColor")
    assert dark != light
    browser.open("/messages")
    assert browser.script("return getComputedStyle(document.body).backgroundColor") == dark
