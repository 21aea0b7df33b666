"""A real browser without a window, and pages to look at.

``make test-browser`` runs these tests. They are skipped where there is no Chromium, with a word on how to get it, and
fail where UNRELU_BROWSER_TESTS=required, as in .ci/run where one can be installed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unrelu

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1280,900"),
]
AXE = Path(__file__).parent / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = [
    "<script>window.hacked=1</script>",
    "\"'><img src=x onerror=window.hacked=1>",
    "</script><script>window.hacked=1</script>",
    "<a href='javascript:window.hacked=1'>b</a>",
    "x" * 10_000,
    "\u202eabc\u2028שלום",
    "=1+1",
    "$\\alpha$ <b>bold</b> &amp;",
]


def missing(what: str, how: str) -> None:
    """Skip, or fail where these tests are insisted on."""
    words = f"No {what}: {how}, then make test-browser."
    if os.environ.get("UNRELU_BROWSER_TESTS") == "required":
        pytest.fail(words)
    pytest.skip(words)


@pytest.fixture(scope="session")
def chromium() -> tuple[str, str]:
    programs = shutil.which("chromium") or shutil.which("chromium-browser"), shutil.which("chromedriver")
    if None in programs:
        missing("Chromium or its driver", "apt-get install chromium chromium-driver")
    return programs


@pytest.fixture(scope="session")
def axe() -> str:
    if not AXE.exists():
        missing("axe-core", "npm install --prefix tests/browser")
    return AXE.read_text("utf-8")


@pytest.fixture(scope="session")
def driver(chromium: tuple[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    selenium = pytest.importorskip("selenium.webdriver")
    options = selenium.ChromeOptions()
    options.binary_location = chromium[0]
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(chromium[1]))
    driver.set_script_timeout(120)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture
def browser(driver: Any) -> Browser:
    """The same browser for all tests, as if it were new."""
    fresh = Browser(driver)
    driver.get("about:blank")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    fresh.device(1280, dark=False)
    fresh.errors()
    fresh.requests()
    return fresh


class Browser:
    """A page in a browser: what it shows, and what it said and asked for."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, path: Path) -> None:
        """Load a page, and wait until all is drawn."""
        from selenium.webdriver.support.ui import WebDriverWait

        self.driver.get(path.as_uri())
        WebDriverWait(self.driver, 60).until(lambda _: self.js("return document.documentElement.dataset.drawn"))

    def js(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def device(self, width: int, dark: bool) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Addresses asked for, other than the page itself and what is inside it."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in asked if not url.startswith(("data:", "blob:", "file:", "chrome:"))]

    def columns(self) -> list[str]:
        """Names of the columns shown, from the top."""
        rows = self.js(
            "return Array.from(document.querySelectorAll('#column-table tbody tr'))"
            ".filter(row => row.offsetParent).map(row => row.querySelector('bdi').textContent)"
        )
        return list(rows)


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a calm table with margins, of hostile names, of one column, of many columns, and of a model alone."""
    folder = tmp_path_factory.mktemp("pages")
    X = unrelu.synthetic.random_model(8, random_state=0).sample(400, random_state=1)
    X[3, 2] = np.nan
    X[7, 5] += 20.0
    bent = np.column_stack([X[:, :7], np.expm1(X[:, 7])])
    wide = unrelu.synthetic.random_model(130, k=20, random_state=0).sample(600, random_state=1)
    tables = {
        "calm": (
            pd.DataFrame(bent, columns=["As", "Pb", "Fe", "Zn", "Cd", "Hg", "Cu", "Ni 10"]),
            {"Ni 10": "auto"},
            19,
        ),
        "hostile": (pd.DataFrame(X, columns=HOSTILE), "normal", 19),
        "one": (pd.DataFrame(X[:, :1], columns=["alone"]), "normal", 19),
        "wide": (pd.DataFrame(wide, columns=[f"c{j}" for j in range(130)]), "normal", 0),
    }
    found = {}
    for name, (table, margin, simulations) in tables.items():
        found[name] = folder / f"{name}.html"
        learner = unrelu.RectifiedGaussianLearner(margins=margin).fit(table)
        learner.write_html(
            found[name], table, title=HOSTILE[0] if name == "hostile" else name, n_simulations=simulations
        )
    found["model"] = folder / "model.html"
    unrelu.RectifiedGaussianLearner().fit(X).write_html(found["model"])
    return found
