"""A real Chromium in front of a running server, and short words for what a person does with it."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from support.system import wait_for

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = ROOT / "test-artifacts" / "browser"
AXE = ROOT / "node_modules" / "axe-core" / "axe.min.js"
PHONE, WIDE = (390, 844), (1440, 900)
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
          "--disable-background-networking", "--disable-component-update", "--disable-sync",
          "--disable-dev-shm-usage")  # fmt: skip


def chromium() -> tuple[str, str] | None:
    """(browser, driver), or None where they are not installed."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


class Browser:
    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        self.url = url

    # going somewhere ---------------------------------------------------------------------------------------------
    def open(self, path: str) -> None:
        self.driver.get(self.url + path)

    def prefer(self, *, language: str = "en", theme: str = "light") -> None:
        for name, value in (("wa_lang", language), ("wa_theme", theme)):
            self.driver.add_cookie({"name": name, "value": value, "path": "/"})

    def size(self, size: tuple[int, int]) -> None:
        width, height = size
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def sign_in(self, password: str, *, name: str = "") -> None:
        self.open("/sign-in")
        if name:
            self.one("#name").send_keys(name)
        self.one("#password").send_keys(password)
        self.one("main button.main").click()

    def forget_everything(self) -> None:
        self.driver.delete_all_cookies()

    # looking -----------------------------------------------------------------------------------------------------
    def one(self, css: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, css)

    def all(self, css: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, css)

    def text(self, css: str) -> str:
        """What can be read there; empty while it is not there or just being replaced."""
        try:
            return " ".join(element.text for element in self.all(css))
        except StaleElementReferenceException:
            return ""

    def wait_text(self, css: str, *words: str, timeout_s: float = 30.0) -> str:
        def look() -> str | None:
            found = self.text(css)
            return found if all(word in found for word in words) and found else None

        return wait_for(look, what=f"{css} to say {words}; it says {self.text(css)!r}", timeout_s=timeout_s)

    def wait_shown(self, css: str, *, timeout_s: float = 30.0) -> WebElement:
        def look() -> WebElement | None:
            with contextlib.suppress(StaleElementReferenceException):
                return next((element for element in self.all(css) if element.is_displayed()), None)
            return None

        return wait_for(look, what=f"{css} to be shown", timeout_s=timeout_s)

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def click(self, css: str) -> None:
        element = self.wait_shown(css)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def confirm(self) -> None:
        self.wait_shown("#confirm[open]")
        self.click('#confirm button[value="ok"]')

    def mark(self) -> None:
        """A mark that a reload would wipe out."""
        self.script("window.sameVisit = true")

    @property
    def same_visit(self) -> bool:
        return bool(self.script("return window.sameVisit === true"))

    # judging -----------------------------------------------------------------------------------------------------
    def picture(self, name: str) -> Path:
        ARTIFACTS.mkdir(parents=True, exist_ok=True)
        file = ARTIFACTS / f"{name}.png"
        self.driver.save_screenshot(str(file))
        return file

    def accessibility_findings(self) -> list[str]:
        """What axe-core calls serious or critical, one line each."""
        self.script(AXE.read_text(encoding="utf-8"))
        found: list[dict[str, Any]] = self.driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']}).then(result => done(result.violations));"
        )
        return [
            f"{finding['id']}: {node['html'][:160]} {node['any'][0]['message'] if node['any'] else finding['help']}"
            for finding in found
            if finding["impact"] in {"serious", "critical"}
            for node in finding["nodes"]
        ]

    def requested_hosts(self) -> set[str]:
        """Every host that this browser asked for anything since the last look."""
        hosts: set[str] = set()
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                url = urlsplit(message["params"]["request"]["url"])
                if url.scheme not in {"data", "blob", "chrome"}:
                    hosts.add(url.netloc)
        return hosts

    def complaints(self) -> list[str]:
        """Errors on the console, broken policy included."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]


@contextlib.contextmanager
def running_browser(profile: Path, url: str) -> Iterator[Browser]:
    found = chromium()
    assert found
    options = Options()
    options.binary_location = found[0]
    for flag in (*_FLAGS, f"--user-data-dir={profile}", "--lang=en"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(found[1]))
    driver.set_page_load_timeout(30)
    driver.set_script_timeout(60)
    try:
        browser = Browser(driver, url)
        browser.size(WIDE)
        yield browser
    finally:
        driver.quit()
