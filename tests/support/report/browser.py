"""A headless Chromium for the tests of pages; they are skipped where the machine has none."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def chromium(width: int = 1280, height: int = 900) -> Iterator[Any]:
    """A Selenium driver without network; `get_log("browser")` holds what the console said."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium (the extra named test)")
    from selenium.webdriver.chrome.service import Service

    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs chromium and chromedriver (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--window-size={width},{height}",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield browser
    finally:
        browser.quit()


_SIDEWAYS = """
const found = [...document.querySelectorAll("body, body *")].filter(part => !part.closest("svg") && part.offsetParent !== null
  && part.clientWidth && (part.matches(".fact") || getComputedStyle(part).overflowX !== "visible")
  && part.scrollWidth > part.clientWidth + 1
  && !part.matches(arguments[0]));
return [found, document.documentElement.scrollWidth, innerWidth];
"""
_UNNAMED = ".figure, canvas, iframe, input, select, button, th, :not(.main-svg) > svg[role]"
_WITHOUT_TEXT = """
return [...document.querySelectorAll(arguments[0])].filter(part => {
  const box = part.getBoundingClientRect();
  return part.checkVisibility({visibilityProperty: true}) && box.width && box.height && !part.closest(".modebar")
    && !(part.innerText || "").trim();
});
"""


def cut_off(browser: Any, allowed: str = "") -> list[str]:
    """Return the parts in sight that are wider than their room, as text; `allowed` selects parts that may scroll (CSS)."""
    found, whole, room = browser.execute_script(_SIDEWAYS, allowed or ".none")
    page = [f"the page: {whole} > {room}"] if whole > room else []
    return page + [f"{part.tag_name} {part.get_attribute('class')}: {part.text[:60]!r}" for part in found]


def unnamed(browser: Any) -> list[str]:
    """Return the charts, controls and heads of columns in sight that have no accessible name, as HTML."""
    parts = browser.execute_script(_WITHOUT_TEXT, _UNNAMED)  # a call of the driver for each part takes far longer
    return [part.get_attribute("outerHTML")[:120] for part in parts if not (part.accessible_name or part.text).strip()]


def emulate(browser: Any, width: int, height: int, *, dark: bool = False, mobile: bool = False) -> None:
    """A screen of that size, and the reader's colour scheme."""
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
