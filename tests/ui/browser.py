"""A headless Chromium, driven by Selenium: what the browser tests open pages in."""

from __future__ import annotations

import base64
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.keys import Keys

from tests.engines.process import engine_home

_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


class Browser:
    """One browser with one page."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def resize(self, width: int, height: int = 800, *, dark: bool = False) -> None:
        """Give the page this size, in CSS pixels, and this colour scheme."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.dye(dark=dark)

    def dye(self, *, dark: bool) -> None:
        """Give the page this colour scheme."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def press(self, *keys: str) -> None:
        """Press keys one after another, wherever the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def tab_to(self, wanted: str, most: int = 40) -> None:
        """Press Tab until what has the focus is named so, by its name or its text."""
        for _ in range(most):
            self.press(Keys.TAB)
            if self.focused() == wanted:
                return
        raise AssertionError(f"{wanted!r} cannot be reached with Tab")

    def focused(self) -> str:
        """The name or the text of what has the focus."""
        found: str = self.run("const e = document.activeElement; return e.name || e.ariaLabel || e.textContent.trim();")
        return found

    def run(self, script: str) -> Any:
        """What a script of the driver's answers: it is none of the page's, whose policy does not concern it."""
        return self.driver.execute_script(script)

    def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        found: int = self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth;")
        return found

    def text(self) -> str:
        """The page's text as it is seen."""
        return self.driver.find_element("tag name", "body").text

    def complaints(self) -> list[str]:
        """What the console says: a script that was refused, a file that is not there."""
        return [one["message"] for one in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]  # Selenium types it not

    def picture(self, to: Path) -> None:
        """Write a picture of the page, as much of it as the screen shows."""
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": False})
        to.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with nothing of an earlier one. Raises :class:`tests.engines.process.EngineMissing`."""
    home = engine_home("chromium")
    libraries = home / "root" / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    env = {
        **os.environ,
        "LD_LIBRARY_PATH": f"{libraries}:{libraries / 'pulseaudio'}",
        "FONTCONFIG_FILE": str(home / "fonts.conf"),
        "NO_PROXY": "127.0.0.1,localhost",
    }
    with tempfile.TemporaryDirectory() as profile:
        options = ChromeOptions()
        options.binary_location = str(home / "root" / "usr" / "lib" / "chromium" / "chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = Chrome(options, Service(str(home / "root" / "usr" / "bin" / "chromedriver"), env=env))
        try:
            driver.set_page_load_timeout(15)
            yield Browser(driver)
        finally:
            driver.quit()
